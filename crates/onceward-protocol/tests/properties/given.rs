//! Arbitrary values of the protocol's types.

use onceward_protocol::identity::PartitionKind;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{
    Branch, Creation, Cursor, CursorPhase, Fence, Frontier, Generation, Head, KeyRange, LanePoint, MessageId,
    PartitionId, Position,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Small numbers collide often, large ones reach the ends.
pub fn number() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..4u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}
fn short() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0..4u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}
pub fn name() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab]{0,3}", 1 => any::<String>()]
}
fn creation() -> impl Strategy<Value = Creation> {
    prop_oneof![3 => 0..3u128, 1 => any::<u128>()].prop_map(Creation)
}
pub fn position() -> impl Strategy<Value = Position> {
    (number(), short()).prop_map(|(major, minor)| Position { major, minor })
}
pub fn lane_point() -> impl Strategy<Value = LanePoint> {
    (position(), short()).prop_map(|(position, child)| LanePoint { position, child })
}
pub fn frontier() -> impl Strategy<Value = Frontier> {
    prop_oneof![
        1 => Just(Frontier::START),
        4 => lane_point().prop_map(Frontier::at),
        1 => Just(Frontier::END),
    ]
}
pub fn partition() -> impl Strategy<Value = PartitionId> {
    let kind = prop_oneof![
        Just(PartitionKind::Pipeline),
        (name(), creation(), name()).prop_map(|(source, creation, name)| PartitionKind::Source {
            source,
            creation,
            name
        }),
        (name(), short(), short()).prop_map(|(computation, layout, index)| PartitionKind::Range {
            computation,
            layout,
            index
        }),
    ];
    (creation(), kind).prop_map(|(creation, kind)| PartitionId::new(creation, kind))
}
pub fn message_id() -> impl Strategy<Value = MessageId> {
    (partition(), position(), vec(short(), 0..4)).prop_map(|(root, position, children)| MessageId {
        root,
        position,
        children,
    })
}
pub fn range() -> impl Strategy<Value = KeyRange> {
    (number(), number()).prop_map(|(a, b)| KeyRange { first: a.min(b), last: a.max(b) })
}
pub fn generation() -> impl Strategy<Value = Generation> {
    (number(), number(), number()).prop_map(|(number, nonce, branch)| Generation {
        number,
        nonce,
        branch: Branch(branch),
    })
}
pub fn head() -> impl Strategy<Value = Head> {
    (generation(), number()).prop_map(|(generation, epoch)| Head { generation, epoch })
}
pub fn fence() -> impl Strategy<Value = Fence> {
    prop_oneof![3 => 0..3u128, 1 => any::<u128>()].prop_map(Fence)
}
pub fn cursor() -> impl Strategy<Value = Cursor> {
    let phase = prop_oneof![Just(CursorPhase::New), Just(CursorPhase::Opening), Just(CursorPhase::Open)];
    (phase, position(), position(), position(), proptest::option::of(fence())).prop_map(
        |(phase, finished, marked, intended, fence)| Cursor { phase, finished, marked, intended, fence },
    )
}
pub fn resume_point() -> impl Strategy<Value = ResumePoint> {
    (position(), vec(any::<u8>(), 0..20), any::<i64>(), any::<u64>(), any::<bool>()).prop_map(
        |(position, token, max_event_time, rows, end)| ResumePoint {
            position,
            token,
            max_event_time,
            rows,
            end,
        },
    )
}
