//! Being told by the kernel that something in a log's folder changed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A watch on the files of one folder.
pub(super) struct Watch {
    events: AsyncFd<OwnedFd>,
}

/// Every write counts: those who follow a log want to see it.
const CHANGES: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CREATE).union(WatchFlags::MOVE);

impl Watch {
    /// Begins to watch.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&events, folder, CHANGES)?;
        #[expect(deprecated, reason = "its successor is unsafe; an OwnedFd keeps what that asks for")]
        let events = AsyncFd::with_interest(events, Interest::READABLE)?;
        Ok(Self { events })
    }

    /// Waits for a change, and takes note of all until now. Never returns once it can't watch any more.
    pub(super) async fn changed(&mut self) {
        let Ok(mut ready) = self.events.readable().await else { return std::future::pending().await };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(ready.get_inner(), &mut buffer);
        while matches!(reader.next(), Ok(_) | Err(Errno::INTR)) {}
        ready.clear_ready();
    }
}
