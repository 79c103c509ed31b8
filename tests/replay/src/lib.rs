//! Replaces the randomness and the clocks of the machine, so that a program of one thread does the same each time it is run.
//!
//! Hash maps of the standard library, generated names, identifiers and `select!` take their randomness from `getrandom(2)`, and
//! clocks are read with `clock_gettime(2)`. The program that links this crate has functions of these names, which come before those
//! of the C library. Until [`begin`] they do what those do.
//!
//! Not replaced: what asks the kernel without the C library, such as ring when it makes keys and signatures; and the order of
//! threads.

use std::ffi::{c_int, c_uint};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rustix::rand::GetRandomFlags;
use rustix::time::{ClockId, Timespec};

/// 2026-01-01, in seconds since 1970: when the cluster of a replay begins.
const BEGINNING: i64 = 1_767_225_600;

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

static REPLACED: AtomicBool = AtomicBool::new(false);
/// The state of the generator.
static STATE: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds since the beginning.
static PASSED: AtomicI64 = AtomicI64::new(0);
/// By how many seconds the wall clock is ahead.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// From now on, randomness is what follows from `seed`, and all clocks stand at the beginning of 2026. To be called before the
/// thread that is to be replayed is started: a thread takes the keys of its hash maps only once.
pub fn begin(seed: u64) {
    STATE.store(seed, Ordering::Relaxed);
    PASSED.store(0, Ordering::Relaxed);
    REPLACED.store(true, Ordering::Relaxed);
}

/// Sets all clocks to so much time after the beginning.
///
/// # Panics
/// After 292 years.
pub fn set_time(passed: Duration) {
    let nanoseconds = i64::try_from(passed.as_nanos()).expect("a replay must be shorter than 292 years");
    PASSED.store(nanoseconds, Ordering::Relaxed);
}

/// Sets the wall clock ahead of the other clocks, or back where `seconds` are negative.
pub fn set_wall_clock_ahead(seconds: i64) {
    AHEAD.store(seconds, Ordering::Relaxed);
}

/// SplitMix64.
fn next() -> u64 {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let state = STATE.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The C library's function of this name.
///
/// # Safety
/// `buffer` must be valid for writes of `length` bytes.
#[allow(unsafe_code, reason = "a function of the C library is replaced")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut MaybeUninit<u8>, length: usize, _flags: c_uint) -> isize {
    if length == 0 {
        return 0;
    }
    // SAFETY: the caller promises it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    if REPLACED.load(Ordering::Relaxed) {
        for part in bytes.chunks_mut(8) {
            for (byte, random) in part.iter_mut().zip(next().to_le_bytes()) {
                byte.write(random);
            }
        }
        return length.cast_signed();
    }
    // An error of the kernel, which only a kernel before 3.17 makes: callers take it for a signal, and try again.
    match rustix::rand::getrandom(bytes, GetRandomFlags::empty()) {
        Ok((written, _)) => written.len().cast_signed(),
        Err(_) => 0,
    }
}

/// The C library's function of this name. Clocks of processor time are the kernel's in a replay, too.
///
/// # Safety
/// `time` must be valid for a write.
#[allow(unsafe_code, reason = "a function of the C library is replaced")]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    let (clock, start) = match clock {
        0 => (ClockId::Realtime, Some(BEGINNING + AHEAD.load(Ordering::Relaxed))),
        1 => (ClockId::Monotonic, Some(1000)),
        7 => (ClockId::Boottime, Some(1000)),
        2 => (ClockId::ProcessCPUTime, None),
        3 => (ClockId::ThreadCPUTime, None),
        // EINVAL: nobody here asks for another one.
        _ => return -1,
    };
    let now = match start.filter(|_| REPLACED.load(Ordering::Relaxed)) {
        None => rustix::time::clock_gettime(clock),
        Some(start) => {
            let passed = PASSED.load(Ordering::Relaxed);
            Timespec { tv_sec: start + passed / SECOND, tv_nsec: passed % SECOND }
        }
    };
    // SAFETY: the caller promises it.
    unsafe { time.write(now) };
    0
}
