//! Lists of rules, of which there may be hundreds of thousands.

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// One pattern. The first rule that matches a name counts; what no rule matches takes part.
///
/// * `*` and `?` match within a name, `**` also slashes, wherever it stands, `[a-z]` and `{a,b}` as usual.
/// * `./` at its beginning and `/./` within mean nothing.
/// * With a slash at its beginning it is matched against the whole path below the top of the copy, else
///   against the end of the path: `*.o` everywhere, `build/*.o` in every `build`.
/// * With a slash at its end it matches directories only. What lies in an excluded directory is not
///   looked at.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Rule {
    /// Takes part, or not.
    pub include: bool,
    /// As above.
    pub pattern: String,
    /// It stands in a file of rules, among others that may not be for this copy.
    pub listed: bool,
}

/// The same in a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RuleRef<'a> {
    /// As [`Rule`] has it.
    pub include: bool,
    /// As [`Rule`] has it.
    pub pattern: &'a str,
    /// As [`Rule`] has it.
    pub listed: bool,
}

impl RuleRef<'_> {
    /// One that stands alone.
    pub fn to_rule(self) -> Rule {
        Rule {
            include: self.include,
            pattern: self.pattern.to_owned(),
            listed: self.listed,
        }
    }
}

/// Rules in their order. Each takes its pattern and eight bytes; a copy of the list shares its memory.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct RuleList(Arc<Inner>);

#[derive(Clone, Default, Eq, PartialEq)]
struct Inner {
    text: String,
    /// Where each pattern ends in the text, and in the two lowest bits whether the rule includes and is listed.
    ends: Vec<u64>,
}

impl RuleList {
    /// One more behind all others.
    pub fn push(&mut self, rule: RuleRef<'_>) {
        let inner = Arc::make_mut(&mut self.0);
        inner.text.push_str(rule.pattern);
        let flags = u64::from(rule.include) | u64::from(rule.listed) << 1;
        inner.ends.push((inner.text.len() as u64) << 2 | flags);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }

    /// What the patterns are long together.
    pub fn bytes(&self) -> usize {
        self.0.text.len()
    }

    /// The one at that place.
    pub fn get(&self, index: usize) -> Option<RuleRef<'_>> {
        let &end = self.0.ends.get(index)?;
        let before = index.checked_sub(1).and_then(|at| self.0.ends.get(at));
        let start = usize::try_from(before.map_or(0, |before| before >> 2)).ok()?;
        Some(RuleRef {
            include: end & 1 != 0,
            pattern: self.0.text.get(start..(end >> 2) as usize)?,
            listed: end & 2 != 0,
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = RuleRef<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl fmt::Debug for RuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuleList({} rules)", self.len())
    }
}

impl From<Vec<Rule>> for RuleList {
    fn from(rules: Vec<Rule>) -> Self {
        rules.into_iter().collect()
    }
}

impl FromIterator<Rule> for RuleList {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        let mut list = Self::default();
        list.extend(rules);
        list
    }
}

impl Extend<Rule> for RuleList {
    fn extend<I: IntoIterator<Item = Rule>>(&mut self, rules: I) {
        for rule in rules {
            self.push(RuleRef {
                include: rule.include,
                pattern: &rule.pattern,
                listed: rule.listed,
            });
        }
    }
}

impl Serialize for RuleList {
    /// As a sequence of [`Rule`]s.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.len()))?;
        for rule in self.iter() {
            sequence.serialize_element(&rule.to_rule())?;
        }
        sequence.end()
    }
}

impl<'de> Deserialize<'de> for RuleList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rules;
        impl<'de> Visitor<'de> for Rules {
            type Value = RuleList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of rules")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<RuleList, A::Error> {
                let mut list = RuleList::default();
                while let Some(rule) = sequence.next_element::<Rule>()? {
                    list.extend([rule]);
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(Rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_rules_in_their_order_and_is_sent_as_they_would_be() {
        let mut rules = Vec::new();
        for (number, pattern) in ["a", "", "\u{e9}/", "*.o", "a"].into_iter().enumerate() {
            rules.push(Rule {
                include: number % 2 == 0,
                pattern: pattern.to_owned(),
                listed: number > 2,
            });
        }
        let list: RuleList = rules.clone().into();
        let back: Vec<_> = list.iter().map(RuleRef::to_rule).collect();
        assert_eq!(back, rules);
        assert_eq!((list.len(), list.bytes()), (5, 8));
        let sent = postcard::to_allocvec(&list).unwrap();
        assert_eq!(sent, postcard::to_allocvec(&rules).unwrap());
        assert_eq!(postcard::from_bytes::<RuleList>(&sent).unwrap(), list);
        let mut other = list.clone();
        other.extend([rules[0].clone()]);
        assert_eq!((list.len(), other.len()), (5, 6));
    }
}
