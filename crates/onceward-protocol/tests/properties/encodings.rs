//! What is persisted comes back, orders as it should, and no bytes can make a reader panic.

use onceward_protocol::codec::{Reader, order_i64, put_bytes, put_str, put_varint, unorder_i64};
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::{
    Creation, Cursor, Frontier, Generation, LanePoint, MessageId, PartitionId, Position,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::given;

fn bytes_of(frontier: Frontier) -> Vec<u8> {
    let mut out = Vec::new();
    frontier.encode(&mut out);
    out
}

proptest! {
    #[test]
    fn a_varint_comes_back_and_leaves_what_follows(value in any::<u64>(), after in vec(any::<u8>(), 0..9)) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        prop_assert!(bytes.len() <= 10);
        bytes.extend_from_slice(&after);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.varint(), Some(value));
        prop_assert_eq!(reader.rest(), &after[..]);
    }

    #[test]
    fn a_varint_is_read_only_in_the_form_it_is_written(bytes in vec(any::<u8>(), 0..12)) {
        let mut reader = Reader::new(&bytes);
        if let Some(value) = reader.varint() {
            let mut again = Vec::new();
            put_varint(&mut again, value);
            prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
        }
    }

    #[test]
    fn strings_and_byte_strings_come_back(text in any::<String>(), blob in vec(any::<u8>(), 0..300)) {
        let mut bytes = Vec::new();
        put_str(&mut bytes, &text);
        put_bytes(&mut bytes, &blob);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.str(), Some(text.as_str()));
        prop_assert_eq!(reader.bytes(), Some(&blob[..]));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn signed_integers_come_back_and_order_as_bytes(a in any::<i64>(), b in any::<i64>()) {
        prop_assert_eq!(unorder_i64(order_i64(a)), a);
        prop_assert_eq!(order_i64(a).cmp(&order_i64(b)), a.cmp(&b));
    }

    #[test]
    fn positions_come_back_and_order_as_bytes(a in given::position(), b in given::position()) {
        prop_assert_eq!(Position::decode(a.encode()), a);
        prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
        prop_assert!(Position::ORIGIN <= a);
    }

    #[test]
    fn lane_points_come_back_and_order_as_bytes(a in given::lane_point(), b in given::lane_point()) {
        prop_assert_eq!(LanePoint::decode(a.encode()), a);
        prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
    }

    #[test]
    fn generations_come_back(generation in given::generation()) {
        prop_assert_eq!(Generation::decode(generation.encode()), generation);
    }

    #[test]
    fn frontiers_come_back_and_leave_what_follows(a in given::frontier(), b in given::frontier()) {
        let bytes = [bytes_of(a), bytes_of(b)].concat();
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(Frontier::decode(&mut reader), Some(a));
        prop_assert_eq!(Frontier::decode(&mut reader), Some(b));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn cursors_come_back(cursor in given::cursor()) {
        prop_assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
    }

    #[test]
    fn resume_points_come_back(point in given::resume_point()) {
        prop_assert_eq!(ResumePoint::decode(&point.encode()), Some(point));
    }

    #[test]
    fn partition_ids_come_back(id in given::partition()) {
        prop_assert_eq!(PartitionId::decode(&id.encode()), Some(id));
    }

    #[test]
    fn no_partition_id_is_the_beginning_of_another(a in given::partition(), b in given::partition()) {
        prop_assert_eq!(a == b, b.encode().starts_with(&a.encode()));
    }

    #[test]
    fn message_ids_come_back(id in given::message_id()) {
        prop_assert_eq!(MessageId::decode(&id.encode()), Some(id));
    }

    #[test]
    fn a_creation_is_read_as_it_is_shown(creation in any::<u128>().prop_map(Creation)) {
        prop_assert_eq!(creation.to_string().parse(), Ok(creation));
        prop_assert_eq!(creation.to_string().len(), 32);
    }

    #[test]
    fn an_id_is_read_only_from_the_bytes_it_writes(id in given::message_id(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = id.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(read) = MessageId::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }

    #[test]
    fn a_cut_short_record_is_no_record(cursor in given::cursor(), point in given::resume_point(), id in given::partition(), at in any::<prop::sample::Index>()) {
        for bytes in [point.encode(), id.encode()] {
            let cut = at.index(bytes.len());
            prop_assert_eq!(ResumePoint::decode(&bytes[..cut]).is_some() && bytes == point.encode(), false);
            prop_assert_eq!(PartitionId::decode(&bytes[..cut]).is_some() && bytes == id.encode(), false);
        }
        // The fence is the optional end of a cursor.
        let bytes = cursor.encode();
        let cut = at.index(bytes.len());
        prop_assert_eq!(Cursor::decode(&bytes[..cut]).is_some(), cursor.fence.is_some() && cut == bytes.len() - 16);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..80), len in any::<usize>()) {
        let _ = PartitionId::decode(&bytes);
        let _ = MessageId::decode(&bytes);
        let _ = Cursor::decode(&bytes);
        let _ = ResumePoint::decode(&bytes);
        let _ = Frontier::decode(&mut Reader::new(&bytes));
        let mut reader = Reader::new(&bytes);
        let _ = (reader.byte(), reader.varint(), reader.u32(), reader.u64(), reader.i64(), reader.str());
        let _ = (reader.bytes(), reader.take(len), reader.array::<3>(), reader.is_empty());
        prop_assert!(reader.rest().len() <= bytes.len());
    }

    #[test]
    fn a_failed_read_takes_nothing_that_was_not_there(bytes in vec(any::<u8>(), 0..8)) {
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.take(bytes.len() + 1), None);
        prop_assert_eq!(reader.array::<9>(), None);
        prop_assert_eq!(reader.rest(), &bytes[..]);
    }
}

#[test]
fn a_length_beyond_the_input_is_refused() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::MAX);
    bytes.push(1);
    assert_eq!(Reader::new(&bytes).bytes(), None);
}

#[test]
fn a_varint_beyond_64_bits_is_refused() {
    assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
    let mut largest = vec![0xff; 9];
    largest.push(1);
    assert_eq!(Reader::new(&largest).varint(), Some(u64::MAX));
    largest[9] = 2;
    assert_eq!(Reader::new(&largest).varint(), None);
}

#[test]
fn a_varint_padded_with_zeros_is_refused() {
    assert_eq!(Reader::new(&[0x80, 0x00]).varint(), None);
    assert_eq!(Reader::new(&[0x00]).varint(), Some(0));
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    assert_eq!(Reader::new(&[2, 0xc3, 0x28]).str(), None);
}
