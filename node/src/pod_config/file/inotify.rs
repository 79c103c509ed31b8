//! Being told by the kernel that something in a folder, or a file, changed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A watch on one path.
pub(super) struct Inotify {
    events: AsyncFd<OwnedFd>,
}

/// Writes count once they are complete; links have nothing but their making.
const CHANGES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

impl Inotify {
    /// Begins to watch.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&events, path, CHANGES)?;
        #[expect(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that asks for")]
        let events = AsyncFd::with_interest(events, Interest::READABLE)?;
        Ok(Self { events })
    }

    /// Waits for a change. False means that the path itself is gone, or can't be watched any more.
    pub(super) async fn changed(&mut self) -> bool {
        let Ok(mut ready) = self.events.readable().await else { return false };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(ready.get_inner(), &mut buffer);
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        let mut watched = true;
        loop {
            match reader.next() {
                Ok(event) => watched &= !event.events().intersects(gone),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return false,
            }
        }
        ready.clear_ready();
        watched
    }
}
