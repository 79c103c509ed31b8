//! A limited amount of something, divided among clients.

use std::collections::HashMap;
use std::hash::Hash;

/// Divides a limited amount among clients, each of which may hold at most as much as remains free.
///
/// So one client alone gets half of the limit, and `n` clients that hold as much as they can get `1 / (n + 1)` of it each: the
/// same share remains for the next client.
#[derive(Debug)]
pub struct Shares<C> {
    limit: usize,
    all: usize,
    /// Has no entry for a client that holds nothing.
    by_client: HashMap<C, usize>,
}

impl<C: Clone + Eq + Hash> Shares<C> {
    /// So much, all of which is free.
    pub fn of(limit: usize) -> Self {
        Self { limit, all: 0, by_client: HashMap::new() }
    }

    /// Takes this amount for a client. Returns `false`, and takes nothing, if the client would then hold more than remains free.
    #[must_use]
    pub fn take(&mut self, client: &C, amount: usize) -> bool {
        if amount == 0 {
            return true;
        }
        let Some(free) = (self.limit - self.all).checked_sub(amount) else { return false };
        let own = self.by_client.get(client).copied().unwrap_or(0) + amount;
        if own > free {
            return false;
        }
        self.all += amount;
        self.by_client.insert(client.clone(), own);
        true
    }

    /// Gives back an amount that the client has taken.
    ///
    /// # Panics
    /// If the client holds less.
    pub fn give_back(&mut self, client: &C, amount: usize) {
        if amount == 0 {
            return;
        }
        let own = self.by_client.get_mut(client).expect("the client must hold what it gives back");
        *own = own.checked_sub(amount).expect("the client must hold what it gives back");
        if *own == 0 {
            self.by_client.remove(client);
        }
        self.all -= amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_hold_as_much_as_remains_free() {
        let mut shares = Shares::of(12);
        assert!(shares.take(&"hog", 4) && shares.take(&"hog", 2));
        assert!(!shares.take(&"hog", 1), "it has half of the limit");
        assert!(shares.take(&"second", 3) && !shares.take(&"second", 1));
        assert!(shares.take(&"third", 1));
        shares.give_back(&"hog", 4);
        assert!(!shares.take(&"second", 2) && shares.take(&"second", 1));
    }

    #[test]
    fn clients_that_hold_as_much_as_they_can_leave_a_share_for_the_next_one() {
        let mut shares = Shares::of(1 << 10);
        for _ in 0..64 {
            for hog in 0..8 {
                while shares.take(&hog, 1) {}
            }
        }
        assert!(shares.take(&8, 1));
    }

    #[test]
    fn nothing_is_kept_of_clients_that_hold_nothing() {
        let mut shares = Shares::of(10);
        assert!(shares.take(&"a", 5) && shares.take(&"b", 0));
        assert!(!shares.take(&"a", usize::MAX));
        shares.give_back(&"a", 5);
        assert_eq!((shares.all, shares.by_client.len()), (0, 0));
    }
}
