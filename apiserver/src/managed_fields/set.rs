//! Sets of fields.

use std::cmp::Ordering;

use super::element::Element;

/// A set of paths into an object. The object itself is never in one.
///
/// A path may be in the set with or without paths below it: whoever has `spec` does not have `spec.replicas` by that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Sorted by element. Each is a member or has something below.
    nodes: Vec<Node>,
}

/// What a set has of one element and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// The last step of the path.
    pub(super) element: Element,
    /// Whether the path itself is in the set.
    pub(super) member: bool,
    /// What is in the set below the path.
    pub(super) below: FieldSet,
}

impl Node {
    fn some(element: &Element, member: bool, below: FieldSet) -> Option<Self> {
        (member || !below.is_empty()).then(|| Self { element: element.clone(), member, below })
    }
}

impl FieldSet {
    /// The set of these paths of member names, such as `metadata.labels`.
    pub(super) fn of_fields(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.split('.').map(Element::field));
        }
        set
    }

    /// Whether nothing is in the set.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The first steps of its paths, in order.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Adds a path.
    pub(super) fn insert(&mut self, path: impl IntoIterator<Item = Element>) {
        let mut path = path.into_iter();
        let Some(first) = path.next() else { return };
        let mut at = self.node_mut(first);
        for element in path {
            at = at.below.node_mut(element);
        }
        at.member = true;
    }

    /// Adds what is said of an element.
    pub(super) fn add(&mut self, element: Element, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        let node = self.node_mut(element);
        node.member |= member;
        node.below = if node.below.is_empty() { below } else { node.below.union(&below) };
    }

    /// The node of an element, which is made if need be; the caller puts something into it.
    fn node_mut(&mut self, element: Element) -> &mut Node {
        // Mostly they come in order.
        let at = match self.nodes.last().map(|last| last.element.cmp(&element)) {
            None | Some(Ordering::Less) => Err(self.nodes.len()),
            Some(_) => self.nodes.binary_search_by(|node| node.element.cmp(&element)),
        };
        let at = at.unwrap_or_else(|at| {
            self.nodes.insert(at, Node { element, member: false, below: Self::default() });
            at
        });
        &mut self.nodes[at]
    }

    /// What the set has of an element and below.
    pub(super) fn get(&self, element: &Element) -> Option<&Node> {
        Some(&self.nodes[self.position(element)?])
    }

    fn position(&self, element: &Element) -> Option<usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()
    }

    /// Whether a path is in the set.
    pub(super) fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.get(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    /// All paths: those of one level first, then what is below each.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.add_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn add_paths(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            paths.push(path);
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.below.add_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// What is in either.
    pub(super) fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node::some(&a.element, a.member || b.member, a.below.union(&b.below)),
            (one, other) => one.or(other).cloned(),
        })
    }

    /// What is in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |a, b| {
            let (a, b) = (a?, b?);
            Node::some(&a.element, a.member && b.member, a.below.intersection(&b.below))
        })
    }

    /// Takes out what is in the other one.
    pub(super) fn remove(&mut self, other: &Self) {
        for theirs in &other.nodes {
            let Some(at) = self.position(&theirs.element) else { continue };
            let node = &mut self.nodes[at];
            node.member &= !theirs.member;
            node.below.remove(&theirs.below);
            self.drop_if_empty(at);
        }
    }

    /// Takes out what is in the other one, and what is below that.
    pub(super) fn cut(&mut self, other: &Self) {
        for theirs in &other.nodes {
            let Some(at) = self.position(&theirs.element) else { continue };
            if theirs.member {
                self.nodes.remove(at);
            } else {
                self.nodes[at].below.cut(&theirs.below);
                self.drop_if_empty(at);
            }
        }
    }

    fn drop_if_empty(&mut self, at: usize) {
        if !self.nodes[at].member && self.nodes[at].below.is_empty() {
            self.nodes.remove(at);
        }
    }

    /// What is in this one only.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut left = self.clone();
        left.remove(other);
        left
    }

    /// The set with each of its nodes as `change` leaves it.
    pub(super) fn filter_map(&self, mut change: impl FnMut(&Node) -> Option<(bool, Self)>) -> Self {
        let nodes = self.nodes.iter().filter_map(|node| {
            let (member, below) = change(node)?;
            Node::some(&node.element, member, below)
        });
        Self { nodes: nodes.collect() }
    }

    fn zip(&self, other: &Self, mut join: impl FnMut(Option<&Node>, Option<&Node>) -> Option<Node>) -> Self {
        let (mut ours, mut theirs) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        let mut nodes = Vec::with_capacity(self.nodes.len());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return Self { nodes },
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.element.cmp(&b.element),
            };
            let a = if order.is_le() { ours.next() } else { None };
            let b = if order.is_ge() { theirs.next() } else { None };
            nodes.extend(join(a, b));
        }
    }
}
