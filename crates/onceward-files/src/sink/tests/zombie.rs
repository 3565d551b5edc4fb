//! A writer that was overtaken can do nothing any more, wherever it was stopped.

use std::io;
use std::sync::Mutex;

use super::*;
use crate::sink::layout::Layout;
use crate::sink::ledger::{Append, Ledger};
use crate::sink::manifest::{Kind, Manifest};

type Interruption = Box<dyn FnOnce() + Send>;

/// A file system that lets something else happen just before one of the steps.
struct Interrupted {
    at: usize,
    state: Mutex<(usize, Option<Interruption>)>,
}

impl Interrupted {
    fn new(at: usize, what: Interruption) -> Arc<Self> {
        Arc::new(Interrupted { at, state: Mutex::new((0, Some(what))) })
    }
    fn steps(&self) -> usize {
        self.state.lock().expect("lock").0
    }
    fn step(&self) -> LocalStorage {
        let mut state = self.state.lock().expect("lock");
        if state.0 == self.at
            && let Some(what) = state.1.take()
        {
            what();
        }
        state.0 += 1;
        LocalStorage
    }
}

impl Storage for Interrupted {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.step().create_folder(path)
    }
    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.step().write_private(path, content)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step().link(from, to)
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step().publish(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step().remove(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step().sync_folder(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.step().list(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.step().read(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.step().exists(path)
    }
}

/// How many steps a job has when nothing comes between.
fn steps() -> usize {
    let dir = fast_dir();
    let storage = Interrupted::new(usize::MAX, Box::new(|| ()));
    job(&mut writer_on(dir.path(), storage.clone()), 0xA).expect("writes");
    storage.steps()
}

fn ledger(folder: &Path) -> Ledger {
    let identity = identity(1);
    let layout = Layout::new(folder, &identity, "jsonl".into()).expect("a layout");
    Ledger { layout, identity, storage: Arc::new(LocalStorage) }
}

/// One job is stopped at a step; `other` happens; the job goes on. Answers what became of it.
fn overtaken(step: usize, folder: &Path, other: Interruption) -> Result<(), Ended> {
    job(&mut writer_on(folder, Interrupted::new(step, other)), 0xA)
}

/// `consume`: a reader takes the newer job's files away before the older one goes on.
fn stopped_and_overtaken(step: usize, consume: bool) -> bool {
    let said = format!("step {step}, consume {consume}");
    let dir = fast_dir();
    let folder = dir.path().to_owned();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let consumer = taken.clone();
    let newer = Box::new(move || {
        job(&mut writer_on(&folder, Arc::new(LocalStorage)), 0xB).expect("the newer job writes everything");
        if consume {
            consumer.lock().expect("lock").extend(take(&folder));
        }
    });
    let ended = overtaken(step, dir.path(), newer);
    let mut seen: Vec<String> = taken.lock().expect("lock").drain(..).collect();
    if consume {
        assert_eq!(seen, all_rows(), "{said}: the newer job lost or repeated rows");
    }
    seen.extend(take(dir.path()));
    assert_eq!(seen, all_rows(), "{said}: the zombie wrote after it was overtaken");
    job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xC).expect("a later open finds all done");
    assert_eq!(take(dir.path()), Vec::<String>::new(), "{said}: a later open published something");
    assert_eq!(staged(dir.path()), Vec::<String>::new(), "{said}: files of dead attempts stay");
    let Err(Ended { error, before: Some(_) }) = ended else { return false };
    assert!(matches!(error, TargetError::Fenced(_)), "{said}: {error:?}");
    true
}

#[test]
fn a_writer_stopped_at_any_step_and_overtaken_neither_loses_nor_repeats_a_row() {
    for consume in [false, true] {
        let fenced = (0..steps()).filter(|step| stopped_and_overtaken(*step, consume)).count();
        assert!(fenced > 10, "only {fenced} writes were fenced");
    }
}

#[test]
fn an_open_never_clears_away_what_a_newer_one_is_about_to_commit() {
    for step in 0..steps() {
        let dir = fast_dir();
        let folder = dir.path().to_owned();
        let attempt = Arc::new(Mutex::new(0));
        let number = attempt.clone();
        let newer = Box::new(move || {
            writer_on(&folder, Arc::new(LocalStorage)).take_fence(Fence(0xB)).expect("opens");
            let ledger = ledger(&folder);
            let next = ledger.last().expect("reads").expect("an open").number + 1;
            ledger.stage(&ledger.layout.staged_table_name(next, Fence(0xB)), b"{}\n").expect("stages");
            *number.lock().expect("lock") = next;
        });
        let _ = overtaken(step, dir.path(), newer);
        writer_on(dir.path(), Arc::new(LocalStorage)).read_marker().expect("a look from outside");
        let ledger = ledger(dir.path());
        let number = *attempt.lock().expect("lock");
        if ledger.last().expect("reads").expect("an open").number < number {
            let name = ledger.layout.staged_table_name(number, Fence(0xB));
            assert!(
                staged(dir.path()).contains(&name),
                "step {step}: the table of the newer open was cleared away"
            );
        }
    }
}

#[test]
fn a_foreign_file_that_appears_at_any_step_is_never_overwritten() {
    for step in 0..steps() {
        let dir = fast_dir();
        let foreign = dir.path().join("by_carrier-0003-00000002.jsonl");
        let path = foreign.clone();
        let appeared = Arc::new(Mutex::new(false));
        let flag = appeared.clone();
        let appears = Box::new(move || {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            // If the table is there already, the name is ours and nothing can appear under it.
            if let Ok(mut file) = std::fs::File::create_new(path) {
                io::Write::write_all(&mut file, b"mine\n").expect("writes");
                *flag.lock().expect("lock") = true;
            }
        });
        let ended = overtaken(step, dir.path(), appears);
        if *appeared.lock().expect("lock") {
            assert!(ended.is_err(), "step {step}: a table was published under a taken name");
            assert_eq!(std::fs::read_to_string(&foreign).expect("reads"), "mine\n", "step {step}");
            std::fs::remove_file(&foreign).expect("removes");
        }
        job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xC).expect("goes on once it is gone");
        assert_eq!(rows(dir.path()), all_rows(), "step {step}");
    }
}

#[test]
fn a_newer_open_that_writes_nothing_fences_too() {
    for step in 0..steps() {
        let dir = fast_dir();
        let folder = dir.path().to_owned();
        let held = Arc::new(Mutex::new(None));
        let position = held.clone();
        let newer = Box::new(move || {
            let mut writer = writer_on(&folder, Arc::new(LocalStorage));
            writer.take_fence(Fence(0xB)).expect("opens");
            *position.lock().expect("lock") = Some(writer.read_marker().expect("reads"));
        });
        let ended = overtaken(step, dir.path(), newer);
        let marker = writer_on(dir.path(), Arc::new(LocalStorage)).read_marker().expect("reads");
        let held = held.lock().expect("lock").expect("the newer open ran");
        // Either the older open came to its own open after the newer one, and holds the target now, or
        // the marker is where the newer one found it.
        let reopened = marker.is_some_and(|marker| marker.fence == Fence(0xA)) && held.is_none();
        assert!(
            reopened || marker == held,
            "step {step}: found {marker:?}, the newer open found {held:?}, {ended:?}"
        );
        job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xC).expect("writes the rest");
        assert_eq!(rows(dir.path()), all_rows(), "step {step}");
    }
}

#[test]
fn the_same_attempt_again_is_ours_and_another_one_is_not() {
    let dir = fast_dir();
    writer_on(dir.path(), Arc::new(LocalStorage)).take_fence(Fence(0xA)).expect("opens");
    let ledger = ledger(dir.path());
    let last = ledger.last().expect("reads");
    let mut next = Manifest::after(last.as_ref(), &identity(1), Fence(0xA), Kind::Create);
    next.position = Some(Position::ORIGIN.into());
    for attempt in 1..=2 {
        let outcome = ledger.append(&next, Fence(0xA)).expect("appends");
        assert!(matches!(outcome, Append::Committed), "attempt {attempt}: {outcome:?}");
    }
    let foreign = Manifest { fence: Fence(0xB).to_string(), ..next };
    let outcome = ledger.append(&foreign, Fence(0xB)).expect("answers");
    assert!(matches!(outcome, Append::Taken(_)), "{outcome:?}");
}
