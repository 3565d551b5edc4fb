//! A fault at every single step of a job: rows are neither lost nor repeated, and an error says the
//! truth about what was applied.

use std::io::{self, ErrorKind};
use std::sync::Mutex;

use super::*;

/// What goes wrong at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It fails without effect.
    Fails(ErrorKind),
    /// It takes effect, and fails all the same.
    FailsAfter(ErrorKind),
    /// The process dies; of a file that was being written there is half.
    Dies,
    /// The process dies right after it.
    DiesAfter,
}

/// A file system in which one step goes wrong.
struct Faulty {
    at: usize,
    fault: Fault,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    steps: Vec<&'static str>,
    synced: Vec<PathBuf>,
    dead: bool,
}

impl Faulty {
    fn new(at: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Faulty { at, fault, state: Mutex::default() })
    }
    fn steps(&self) -> Vec<&'static str> {
        self.state.lock().expect("lock").steps.clone()
    }
    fn step<T>(
        &self,
        name: &'static str,
        half: impl FnOnce(),
        whole: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state.lock().expect("lock");
        if state.dead {
            return Err(io::Error::other("the process is dead"));
        }
        state.steps.push(name);
        if state.steps.len() - 1 != self.at {
            return whole();
        }
        state.dead = matches!(self.fault, Fault::Dies | Fault::DiesAfter);
        match self.fault {
            Fault::Fails(kind) => Err(kind.into()),
            Fault::FailsAfter(kind) => {
                whole()?;
                Err(kind.into())
            }
            Fault::Dies => {
                half();
                Err(io::Error::other("the process died"))
            }
            Fault::DiesAfter => {
                whole()?;
                Err(io::Error::other("the process died"))
            }
        }
    }
}

impl Storage for Faulty {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.step("create_folder", || (), || LocalStorage.create_folder(path))
    }
    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let half = || {
            let _ = std::fs::write(path, &content[..content.len() / 2]);
        };
        self.step("write_private", half, || LocalStorage.write_private(path, content))
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("link", || (), || LocalStorage.link(from, to))
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("publish", || (), || LocalStorage.publish(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step("remove", || (), || LocalStorage.remove(path))
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.state.lock().expect("lock").synced.push(path.to_owned());
        self.step("sync_folder", || (), || LocalStorage.sync_folder(path))
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.step("list", || (), || LocalStorage.list(path))
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.step("read", || (), || LocalStorage.read(path))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.step("exists", || (), || LocalStorage.exists(path))
    }
}

/// The steps of a job without faults.
fn steps() -> Vec<&'static str> {
    let dir = fast_dir();
    let storage = Faulty::new(usize::MAX, Fault::Dies);
    job(&mut writer_on(dir.path(), storage.clone()), 0xA).expect("writes");
    storage.steps()
}

/// A job with one fault, then one without; `consume` takes visible files away in between.
fn check(step: usize, fault: Fault, consume: bool) -> bool {
    let said = format!("step {step}, {fault:?}, consume {consume}");
    let dir = fast_dir();
    let ended = job(&mut writer_on(dir.path(), Faulty::new(step, fault)), 0xA);
    let mut seen = if consume { take(dir.path()) } else { Vec::new() };
    // Whatever is visible now is whole and in order.
    let visible = if consume { seen.clone() } else { rows(dir.path()) };
    assert_eq!(visible, all_rows()[..visible.len()], "{said}");
    if let Err(Ended { error, before: Some(before) }) = &ended {
        let marker = writer_on(dir.path(), Arc::new(LocalStorage)).read_marker().expect("reads");
        let applied = marker.expect("a marker").position != *before;
        let unknown = matches!(error, TargetError::Unknown(_));
        assert!(unknown || !applied, "{said}: applied, but the answer was {error:?}");
        if consume {
            seen.extend(take(dir.path()));
        }
    }
    job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xB)
        .unwrap_or_else(|ended| panic!("{said}: {ended:?}"));
    seen.extend(rows(dir.path()));
    assert_eq!(seen, all_rows(), "{said}: rows were lost or repeated");
    assert_eq!(staged(dir.path()), Vec::<String>::new(), "{said}: the open left files of dead attempts");
    ended.is_err()
}

#[test]
fn a_death_before_or_after_any_step_neither_loses_nor_repeats_a_row() {
    let steps = steps();
    for name in
        ["create_folder", "write_private", "link", "publish", "remove", "sync_folder", "list", "exists"]
    {
        assert!(steps.contains(&name), "the scenario never does {name}");
    }
    for step in 0..steps.len() {
        for fault in [Fault::Dies, Fault::DiesAfter] {
            for consume in [false, true] {
                check(step, fault, consume);
            }
        }
    }
}

#[test]
fn an_error_at_any_step_neither_loses_nor_repeats_a_row_and_never_lies_about_it() {
    let kinds = [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::TimedOut, ErrorKind::Other];
    let mut failed = 0;
    for step in 0..steps().len() {
        for kind in kinds {
            for fault in [Fault::Fails(kind), Fault::FailsAfter(kind)] {
                // A full disk that creates the name all the same is not a thing of file systems.
                let after = matches!(fault, Fault::FailsAfter(_));
                if after && matches!(kind, ErrorKind::StorageFull | ErrorKind::PermissionDenied) {
                    continue;
                }
                failed += usize::from(check(step, fault, false));
                check(step, fault, true);
            }
        }
    }
    assert!(failed > steps().len(), "only {failed} faults reached the job");
}

#[test]
fn what_a_step_rests_on_is_synced_before_it() {
    let dir = fast_dir();
    let storage = Faulty::new(usize::MAX, Fault::Dies);
    job(&mut writer_on(dir.path(), storage.clone()), 0xA).expect("writes");
    // The last table: staged and synced, committed and synced, published and synced.
    let expected = [
        "exists",
        "write_private",
        "sync_folder",
        "write_private",
        "link",
        "sync_folder",
        "remove",
        "publish",
        "sync_folder",
    ];
    assert!(storage.steps().ends_with(&expected), "{:?}", storage.steps());
    let manifests = dir.path().join(".onceward/hourly/by_carrier-0003");
    let synced = storage.state.lock().expect("lock").synced.clone();
    let expected = [manifests.join("staging"), manifests.clone(), dir.path().to_owned()];
    assert!(synced.ends_with(&expected), "{synced:?}");
    let above = [dir.path().join(".onceward"), dir.path().join(".onceward/hourly")];
    above.iter().for_each(|folder| assert!(synced.contains(folder), "{synced:?}"));
}

#[test]
fn a_full_disk_and_a_missing_permission_are_definite_and_name_what_to_do() {
    for (kind, code) in [
        (ErrorKind::StorageFull, "OW-3104"),
        (ErrorKind::QuotaExceeded, "OW-3104"),
        (ErrorKind::PermissionDenied, "OW-3105"),
        (ErrorKind::ReadOnlyFilesystem, "OW-3105"),
    ] {
        for (step, name) in steps().iter().enumerate().filter(|(_, name)| **name == "write_private") {
            let dir = fast_dir();
            let ended = job(&mut writer_on(dir.path(), Faulty::new(step, Fault::Fails(kind))), 0xA);
            let Err(Ended { error: TargetError::Definite(error), .. }) = ended else {
                panic!("step {step} {name}: expected Definite, found {ended:?}");
            };
            assert_eq!(error.code, code, "{error}");
        }
    }
}

#[test]
fn after_an_unknown_outcome_nothing_is_written_before_the_fence_is_taken_anew() {
    let steps = steps();
    let last_link = steps.iter().rposition(|name| *name == "link").expect("links");
    let dir = fast_dir();
    let mut writer = writer_on(dir.path(), Faulty::new(last_link, Fault::FailsAfter(ErrorKind::TimedOut)));
    let ended = job(&mut writer, 0xA).expect_err("timed out after it was applied");
    assert!(matches!(ended.error, TargetError::Unknown(_)), "{ended:?}");
    let retry = writer.write(&block(5..=6), at(4, 0xA), at(6, 0xA));
    assert!(matches!(retry, Err(TargetError::Unknown(_))), "{retry:?}");
    writer.take_fence(Fence(0xB)).expect("opens anew");
    assert_eq!(
        writer.read_marker().expect("reads"),
        Some(at(6, 0xB)),
        "the write that timed out had been applied"
    );
    assert_eq!(rows(dir.path()), all_rows());
}
