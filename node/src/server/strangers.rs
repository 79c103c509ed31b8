//! Connections on which nobody has been let in yet, and who goes when there is no room.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::activity::Activity;

/// Those connections, the oldest first. Others, and those that have ended, may be among them until the next one comes.
#[derive(Default)]
pub(super) struct Strangers(Mutex<VecDeque<Weak<Activity>>>);

impl Strangers {
    /// A connection begins.
    pub(super) fn add(&self, connection: &Arc<Activity>) {
        let mut all = self.0.lock();
        all.retain(|one| one.upgrade().is_some_and(|one| one.is_strangers()));
        all.push_back(Arc::downgrade(connection));
    }

    /// Has the oldest end at once, if there is one: whoever has a right to something has had the most time for it there.
    pub(super) fn turn_one_away(&self) {
        let mut all = self.0.lock();
        while let Some(oldest) = all.pop_front() {
            if oldest.upgrade().is_some_and(|oldest| oldest.turn_away()) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_goes_and_nobody_else() {
        let strangers = Strangers::default();
        let all = [0; 5].map(|_| Activity::new());
        all.iter().for_each(|one| strangers.add(one));
        let [known, gone, oldest, next, _] = all;
        known.admitted();
        drop(gone);
        let turned_away = || [&known, &oldest, &next].map(|one| one.was_turned_away());
        strangers.turn_one_away();
        assert_eq!(turned_away(), [false, true, false]);
        strangers.turn_one_away();
        assert_eq!(turned_away(), [false, true, true]);
        // Nobody of them is kept by being remembered.
        strangers.turn_one_away();
        strangers.turn_one_away();
        strangers.add(&known);
        strangers.turn_one_away();
        assert!(!known.was_turned_away());
    }
}
