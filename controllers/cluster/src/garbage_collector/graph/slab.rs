//! A vector whose items keep their places, and whose free places are used again.

/// Items by place. Places are 32 bits, because a graph has many of them.
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.items[place as usize] = Some(item);
            return place;
        }
        self.items.push(Some(item));
        u32::try_from(self.items.len() - 1).expect("a graph must have less than 2^32 parts")
    }

    pub(super) fn remove(&mut self, place: u32) -> T {
        self.free.push(place);
        self.items[place as usize].take().expect("a removed place must be occupied")
    }

    /// The item at a place, if the place is occupied.
    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.items[place as usize].as_ref()
    }

    pub(super) fn at(&self, place: u32) -> &T {
        self.items[place as usize].as_ref().expect("a named place must be occupied")
    }

    pub(super) fn at_mut(&mut self, place: u32) -> &mut T {
        self.items[place as usize].as_mut().expect("a named place must be occupied")
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// The occupied places.
    pub(super) fn places(&self) -> Vec<u32> {
        let occupied = self.items.iter().enumerate().filter(|(_, item)| item.is_some());
        occupied.map(|(place, _)| u32::try_from(place).expect("a place must be 32 bits")).collect()
    }

    /// The allocated memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.items.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}
