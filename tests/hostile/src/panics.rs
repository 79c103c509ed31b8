//! The panics of all threads and tasks, also of those whose end nobody waits for.

use std::panic;
use std::sync::Once;

use parking_lot::Mutex;

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes panics from now on.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            PANICS.lock().push(panicked.to_string());
            before(panicked);
        }));
    });
}

/// Those since the last call, in words.
pub fn take() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock())
}
