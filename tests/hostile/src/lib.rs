//! Gives a surface of the program broken input for some seconds, and sees to it that no input ends it or costs more memory than it
//! may.
//!
//! The input is made of a corpus: good samples, and each input that was once a fault. It is the same for the same seed, so that what
//! one run finds, another one repeats.

mod input;
pub mod panics;
pub mod protobuf;

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use peak_alloc::PeakAlloc;
use rand::SeedableRng;
use rand::rngs::StdRng;

use input::Inputs;
pub use input::LONGEST;

/// Counts the memory of the program that is tested, which makes it its allocator.
pub static MEMORY: PeakAlloc = PeakAlloc;

/// What reads input that others make.
pub struct Surface {
    /// Names its corpus, a folder in `corpus`.
    pub name: &'static str,
    /// How many bytes it may allocate at a time for one input of at most [`LONGEST`] bytes.
    pub ceiling: usize,
    /// Good samples beside those of the corpus.
    pub samples: Vec<Vec<u8>>,
}

/// For how long, and from which seed.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How long to go on.
    pub time: Duration,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Effort {
    /// `HOSTILE_SECONDS` and `HOSTILE_SEED`; by default a second, and the seed 1.
    ///
    /// # Panics
    /// If one of them is no number.
    #[allow(clippy::disallowed_methods, reason = "only who starts the tests knows how long they may take")]
    pub fn wanted() -> Self {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
            Err(_) => default,
        };
        Self { time: Duration::from_secs(number("HOSTILE_SECONDS", 1)), seed: number("HOSTILE_SEED", 1) }
    }
}

/// What an attack has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// How many inputs there were.
    pub inputs: u64,
    /// The most bytes that one of them cost.
    pub most: usize,
}

/// Gives `take` the corpus of a surface as it is, then what becomes of it when its bytes are broken.
///
/// # Panics
/// As [`attack_with`] does.
pub fn attack(surface: &Surface, effort: Effort, take: impl Fn(&[u8])) -> Report {
    attack_with(surface, effort, |corpus, random| Inputs::new(corpus.to_vec(), random), take)
}

/// Gives `take` the corpus of a surface as it is, then the inputs that `broken` makes of it.
///
/// # Panics
/// If an input makes `take` panic or allocate too much, or if memory is not given back. The message names a file with the input.
#[allow(clippy::disallowed_types, reason = "real time bounds a run; nothing is decided by it")]
pub fn attack_with<I: Iterator<Item = Vec<u8>>>(
    surface: &Surface,
    effort: Effort,
    broken: impl FnOnce(&[Vec<u8>], StdRng) -> I,
    take: impl Fn(&[u8]),
) -> Report {
    let corpus = [surface.samples.clone(), corpus(surface.name)].concat();
    assert!(!corpus.is_empty(), "{} must have a corpus", surface.name);
    let attempt = |input: &[u8]| {
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let done = catch_unwind(AssertUnwindSafe(|| take(input)));
        let cost = MEMORY.peak_usage().saturating_sub(before);
        match done {
            Err(panic) => fail(surface, effort, input, &format!("it panics: {}", words(&*panic))),
            Ok(()) if cost > surface.ceiling => {
                fail(
                    surface,
                    effort,
                    input,
                    &format!("it costs {cost} bytes, and may cost {}", surface.ceiling),
                );
            }
            Ok(()) => cost,
        }
    };
    // What is made once, such as tables, is no input's cost.
    corpus.iter().for_each(|input| take(input));
    let at_first = MEMORY.current_usage();
    let mut report = Report::default();
    let mut see = |input: &[u8]| {
        report.inputs += 1;
        report.most = report.most.max(attempt(input));
    };
    corpus.iter().for_each(|input| see(input));
    let inputs = broken(&corpus, StdRng::seed_from_u64(effort.seed));
    let begun = std::time::Instant::now();
    for input in inputs {
        see(&input);
        if begun.elapsed() >= effort.time {
            break;
        }
    }
    let kept = MEMORY.current_usage().saturating_sub(at_first);
    assert!(
        kept <= surface.ceiling,
        "{}: {kept} bytes are kept after {} inputs",
        surface.name,
        report.inputs
    );
    report
}

/// The files of a corpus; none without its folder.
///
/// # Panics
/// If they can't be read.
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        entries => entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display())),
    };
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry must be readable").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("a file of the corpus must be readable")).collect()
}

fn fail(surface: &Surface, effort: Effort, input: &[u8], why: &str) -> ! {
    let file = std::env::temp_dir().join(format!("hostile-{}-{}-{}", surface.name, effort.seed, input.len()));
    let kept =
        fs::write(&file, input).map_or_else(|error| error.to_string(), |()| file.display().to_string());
    panic!(
        "{}: {why}\ninput: {:?}\nkept as {kept}: once it is mended, put it into tests/hostile/corpus/{}",
        surface.name,
        String::from_utf8_lossy(&input[..input.len().min(2000)]),
        surface.name
    )
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&'static str>().copied()).unwrap_or("no message")
}
