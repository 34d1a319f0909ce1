//! From one tree with lists to the trees of all cells.

use super::error::{ScenarioError, hint};
use super::node::{Entry, Node, Place, Sources, Value};
use super::sweep::Swept;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Keys whose value is a list by nature, so that it spans no axis.
pub(crate) const LIST_KEYS: [&str; 4] = ["via", "timeline", "lose", "include"];

/// More cells than this in one experiment, repeats included, are a mistake.
pub(crate) const MAX_CELLS: usize = 100_000;

/// Names that results give axes of their own: a scenario's would be taken for them.
const RESULTS_AXES: [&str; 4] = ["campaign", "experiment", "subject", "testbed"];

/// One dimension of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    place: Place,
    points: Vec<Point>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    label: String,
    node: Node,
}

/// One cell: where it stands in the matrix, and its tree without lists and references.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expanded {
    pub(crate) at: BTreeMap<String, String>,
    pub(crate) tree: Node,
}

impl Axis {
    /// The values, as the scenario writes them.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.points
            .iter()
            .map(|point| point.label.clone())
            .collect()
    }
}

/// Spans the matrix: the axes in the order of the text, the last one changing fastest.
pub(crate) fn expand(
    sources: &Sources,
    mut tree: Node,
    swept: &[Swept],
) -> Result<(Vec<Axis>, Vec<Expanded>), ScenarioError> {
    let mut axes = Vec::new();
    if let Some(table) = tree.take("axes") {
        for entry in table.entries() {
            axes.push(explicit(sources, entry)?);
        }
    }
    let exclude = tree.take("exclude");
    let implicit_from = axes.len();
    let mut lists = Vec::new();
    collect(&mut tree, &mut Vec::new(), &mut lists);
    for (at, (path, list)) in lists.iter().enumerate() {
        let sweep = swept.iter().find(|swept| swept.path == *path);
        let name = sweep.map_or_else(|| axis_name(path, &lists, at, &axes), Swept::axis);
        axes.push(Axis {
            points: points(sources, list)?,
            place: list.place,
            name,
        });
    }
    if let Some(axis) = axes.iter().find(|axis| RESULTS_AXES.contains(&&*axis.name)) {
        let message = format!(
            "results have an axis '{}' themselves, which every table would take; give yours another name",
            axis.name
        );
        return Err(sources.error(axis.place, message));
    }
    let twice = (axes.iter().enumerate())
        .find(|(at, axis)| axes[..*at].iter().any(|other| other.name == axis.name));
    if let Some((_, axis)) = twice {
        let message = format!(
            "there are two axes '{}', and a cell has one place on each; give one another name",
            axis.name
        );
        return Err(sources.error(axis.place, message));
    }
    let excluded_at = exclude.as_ref().map(|node| node.place);
    let exclude = exclude
        .map(|node| exclusions(sources, &node, &axes))
        .transpose()?
        .unwrap_or_default();

    let count = axes
        .iter()
        .try_fold(1_usize, |count, axis| count.checked_mul(axis.points.len()))
        .filter(|&count| count <= MAX_CELLS)
        .ok_or_else(|| {
            let message = format!("the lists span more than {MAX_CELLS} cells");
            sources.error(tree.place, message)
        })?;
    let matrix = Matrix {
        sources,
        axes: &axes,
        implicit_from,
        used: RefCell::new(vec![false; axes.len()]),
    };
    let mut cells = Vec::with_capacity(count);
    for index in 0..count {
        let mut rest = index;
        let mut chosen = vec![0; axes.len()];
        for (digit, axis) in chosen.iter_mut().zip(&axes).rev() {
            *digit = rest % axis.points.len();
            rest /= axis.points.len();
        }
        let label = |axis: usize| axes[axis].points[chosen[axis]].label.as_str();
        let excluded = exclude.iter().any(|rule| {
            rule.iter()
                .all(|(axis, labels)| labels.iter().any(|wanted| wanted == label(*axis)))
        });
        if excluded {
            continue;
        }
        let at = (0..axes.len())
            .map(|axis| (axes[axis].name.clone(), label(axis).to_owned()))
            .collect();
        let tree = matrix.substitute(&tree, &chosen)?;
        cells.push(Expanded { at, tree });
    }
    if let Some(place) = excluded_at.filter(|_| cells.is_empty()) {
        return Err(sources.error(place, "'exclude' leaves no cell"));
    }
    if let Some(unused) = matrix.used.borrow().iter().position(|used| !used)
        && !cells.is_empty()
    {
        let name = &axes[unused].name;
        let message =
            format!("no value refers to the axis '{name}'; write \"${name}\" where it belongs");
        return Err(sources.error(axes[unused].place, message));
    }
    Ok((axes, cells))
}

/// An entry of `[axes]`.
fn explicit(sources: &Sources, entry: &Entry) -> Result<Axis, ScenarioError> {
    let node = &entry.node;
    let points = match &node.value {
        Value::List(_) => points(sources, node)?,
        Value::Table(_) if node.get("pairs").is_some() => pairs(sources, node)?,
        _ => {
            let message = format!(
                "the axis '{}' is a list, or {{ pairs = [...] }}, not {}",
                entry.key,
                node.kind()
            );
            return Err(sources.error(node.place, message));
        }
    };
    Ok(Axis {
        name: entry.key.clone(),
        place: entry.key_place,
        points,
    })
}

/// The points of a list.
fn points(sources: &Sources, list: &Node) -> Result<Vec<Point>, ScenarioError> {
    let Value::List(items) = &list.value else {
        return Err(sources.error(list.place, "this is not a list"));
    };
    if items.is_empty() {
        return Err(sources.error(list.place, "an empty list gives no cells"));
    }
    let mut points: Vec<Point> = Vec::with_capacity(items.len());
    for item in items {
        let mut node = item.clone();
        let label = node
            .take("name")
            .unwrap_or_else(|| node.clone())
            .to_string();
        if points.iter().any(|point| point.label == label) {
            let message = format!("'{label}' stands twice in this list");
            return Err(sources.error(item.place, message));
        }
        node.chosen |= list.chosen;
        node.fitted |= list.fitted;
        points.push(Point { label, node });
    }
    Ok(points)
}

/// Every unordered pair of a list, each value with itself too.
fn pairs(sources: &Sources, table: &Node) -> Result<Vec<Point>, ScenarioError> {
    for entry in table.entries() {
        if entry.key != "pairs" {
            let message = format!("unknown key '{}' beside 'pairs'", entry.key);
            return Err(sources.error(entry.key_place, message));
        }
    }
    let single = match table.get("pairs") {
        Some(list) => points(sources, list)?,
        None => Vec::new(),
    };
    let mut both = Vec::new();
    for (at, a) in single.iter().enumerate() {
        for b in &single[at..] {
            let entry = |key: &str, point: &Point| Entry {
                key: key.to_owned(),
                key_place: point.node.place,
                node: point.node.clone(),
            };
            both.push(Point {
                label: format!("{}+{}", a.label, b.label),
                node: Node::new(
                    a.node.place,
                    Value::Table(vec![entry("a", a), entry("b", b)]),
                ),
            });
        }
    }
    Ok(both)
}

/// Takes every list that spans an axis out of the tree and leaves a reference to it.
fn collect(node: &mut Node, path: &mut Vec<String>, lists: &mut Vec<(Vec<String>, Node)>) {
    match &mut node.value {
        Value::Table(entries) => {
            for entry in entries {
                if LIST_KEYS.contains(&entry.key.as_str()) {
                    continue;
                }
                path.push(entry.key.clone());
                collect(&mut entry.node, path, lists);
                path.pop();
            }
        }
        Value::List(_) => {
            let reference = Node::new(node.place, Value::Text(format!("$@{}", lists.len())));
            lists.push((path.clone(), std::mem::replace(node, reference)));
        }
        _ => {}
    }
}

/// The last key, with as many of the tables around it as make it unique.
fn axis_name(
    path: &[String],
    lists: &[(Vec<String>, Node)],
    own: usize,
    explicit: &[Axis],
) -> String {
    for take in 1..=path.len() {
        let name = path[path.len() - take..].join(".");
        let other_list = lists.iter().enumerate().any(|(at, (other, _))| {
            at != own && other.len() >= take && other[other.len() - take..].join(".") == name
        });
        if !other_list && !explicit.iter().any(|axis| axis.name == name) {
            return name;
        }
    }
    path.join(".")
}

/// Rules of `exclude`: axis and labels, all of which must fit.
type Rule = Vec<(usize, Vec<String>)>;

fn exclusions(sources: &Sources, node: &Node, axes: &[Axis]) -> Result<Vec<Rule>, ScenarioError> {
    let Value::List(rules) = &node.value else {
        return Err(sources.error(node.place, "'exclude' is a list of tables"));
    };
    let mut all = Vec::new();
    for rule in rules {
        let mut parts = Vec::new();
        for entry in rule.entries() {
            let Some(axis) = axes.iter().position(|axis| axis.name == entry.key) else {
                let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
                let message = format!("no axis '{}'{}", entry.key, hint(&entry.key, &names));
                return Err(sources.error(entry.key_place, message));
            };
            let wanted: Vec<&Node> = match &entry.node.value {
                Value::List(items) => items.iter().collect(),
                _ => vec![&entry.node],
            };
            let labels = axes[axis].labels();
            for node in &wanted {
                if !labels.contains(&node.to_string()) {
                    let names: Vec<&str> = labels.iter().map(String::as_str).collect();
                    let message = format!(
                        "the axis '{}' has no value '{node}'{}",
                        entry.key,
                        hint(&node.to_string(), &names)
                    );
                    return Err(sources.error(node.place, message));
                }
            }
            parts.push((axis, wanted.iter().map(ToString::to_string).collect()));
        }
        if parts.is_empty() {
            return Err(sources.error(rule.place, "a rule of 'exclude' names at least one axis"));
        }
        all.push(parts);
    }
    Ok(all)
}

/// Replaces references by the values of a cell.
struct Matrix<'a> {
    sources: &'a Sources,
    axes: &'a [Axis],
    implicit_from: usize,
    used: RefCell<Vec<bool>>,
}

impl Matrix<'_> {
    fn substitute(&self, node: &Node, chosen: &[usize]) -> Result<Node, ScenarioError> {
        match &node.value {
            Value::Text(text) if text.starts_with('$') => {
                let mut value = self.resolve(node.place, &text[1..], chosen)?;
                value.chosen |= node.chosen;
                value.fitted |= node.fitted;
                Ok(value)
            }
            Value::List(items) => Ok(Node {
                value: Value::List(
                    items
                        .iter()
                        .map(|item| self.substitute(item, chosen))
                        .collect::<Result<_, _>>()?,
                ),
                ..node.clone_marks()
            }),
            Value::Table(entries) => Ok(Node {
                value: Value::Table(
                    entries
                        .iter()
                        .map(|entry| {
                            Ok(Entry {
                                key: entry.key.clone(),
                                key_place: entry.key_place,
                                node: self.substitute(&entry.node, chosen)?,
                            })
                        })
                        .collect::<Result<_, _>>()?,
                ),
                ..node.clone_marks()
            }),
            _ => Ok(node.clone()),
        }
    }

    fn resolve(&self, place: Place, name: &str, chosen: &[usize]) -> Result<Node, ScenarioError> {
        let numbered = name
            .strip_prefix('@')
            .and_then(|number| number.parse::<usize>().ok())
            .map(|number| (number + self.implicit_from, None));
        let named = || {
            let find = |name: &str| self.axes.iter().position(|axis| axis.name == name);
            if let Some(axis) = find(name) {
                return Some((axis, None));
            }
            let (axis, field) = name.rsplit_once('.')?;
            Some((find(axis)?, Some(field)))
        };
        let Some((axis, field)) = numbered.or_else(named) else {
            let names: Vec<&str> = self.axes.iter().map(|axis| axis.name.as_str()).collect();
            let message = format!("no axis '{name}'{}", hint(name, &names));
            return Err(self.sources.error(place, message));
        };
        if let Some(used) = self.used.borrow_mut().get_mut(axis) {
            *used = true;
        }
        let point = &self.axes[axis].points[chosen[axis]];
        match field {
            None => Ok(point.node.clone()),
            Some(field) => point.node.get(field).cloned().ok_or_else(|| {
                let message = format!(
                    "the value '{}' of the axis '{}' has no field '{field}'",
                    point.label, self.axes[axis].name
                );
                self.sources.error(place, message)
            }),
        }
    }
}

impl Node {
    fn clone_marks(&self) -> Self {
        Self {
            place: self.place,
            value: Value::Bool(false),
            chosen: self.chosen,
            fitted: self.fitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn run(text: &str) -> Result<Vec<Expanded>, ScenarioError> {
        let mut sources = Sources::default();
        let tree = sources.parse(Path::new("x.toml"), text.to_owned())?;
        expand(&sources, tree, &[]).map(|(_, cells)| cells)
    }

    fn places(cells: &[Expanded]) -> Vec<String> {
        cells.iter().map(|cell| format!("{:?}", cell.at)).collect()
    }

    #[test]
    fn lists_span_a_matrix_and_the_last_changes_fastest() {
        let cells = run("a = [1, 2]\n[t]\nb = ['x', 'y']\nvia = ['p', 'q']\n").unwrap();
        assert_eq!(
            places(&cells),
            [
                r#"{"a": "1", "b": "x"}"#,
                r#"{"a": "1", "b": "y"}"#,
                r#"{"a": "2", "b": "x"}"#,
                r#"{"a": "2", "b": "y"}"#
            ]
        );
        assert_eq!(
            cells[1].tree.to_string(),
            "{a = 1, t = {b = y, via = [p, q]}}"
        );
    }

    #[test]
    fn two_lists_of_one_name_are_told_apart() {
        let cells =
            run("[path.a]\nrtt = ['1ms', '2ms']\n[path.b]\nrtt = ['3ms', '4ms']\n").unwrap();
        assert_eq!(places(&cells)[0], r#"{"a.rtt": "1ms", "b.rtt": "3ms"}"#);
        assert_eq!(cells.len(), 4);
    }

    /// Or their cells would be taken for seeds of each other.
    #[test]
    fn no_two_axes_have_one_name() {
        let error = run("a = [1, 2]\nx = '$a'\n[axes]\na = [3, 4]\n").unwrap_err();
        assert!(error.to_string().contains("two axes 'a'"), "{error}");
    }

    #[test]
    fn named_axes_may_be_used_twice_and_have_fields() {
        let text = "x = '$case.u'\ny = '$case.v'\nz = '$p'\nw = '$p'\n\
                    [axes]\ncase = [{ name = 'one', u = 1, v = 2 }, { name = 'two', u = 3, v = 4 }]\np = ['a', 'b']\n";
        let cells = run(text).unwrap();
        assert_eq!(places(&cells)[3], r#"{"case": "two", "p": "b"}"#);
        assert_eq!(cells[3].tree.to_string(), "{x = 3, y = 4, z = b, w = b}");
    }

    #[test]
    fn pairs_are_unordered_and_include_twins() {
        let text = "x = '$pair.a'\ny = '$pair.b'\n[axes]\npair = { pairs = ['a', 'b', 'c'] }\n";
        let cells = run(text).unwrap();
        let labels: Vec<&str> = cells.iter().map(|cell| cell.at["pair"].as_str()).collect();
        assert_eq!(labels, ["a+a", "a+b", "a+c", "b+b", "b+c", "c+c"]);
    }

    #[test]
    fn cells_can_be_excluded() {
        let cells = run("a = [1, 2, 3]\nb = [1, 2]\nexclude = [{ a = [1, 2], b = 2 }]\n").unwrap();
        assert_eq!(cells.len(), 4);
        let error = run("a = [1, 2]\nexclude = [{ a = 3 }]\n").unwrap_err();
        assert!(error.to_string().contains("has no value '3'"), "{error}");
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line, part) in [
            ("\na = []", 2, "empty list"),
            (
                "a = 1\nb = '$rt'\n[axes]\nrtt = [1, 2]",
                2,
                "did you mean 'rtt'",
            ),
            ("a = 1\n[axes]\nrtt = [1, 2]", 3, "no value refers"),
            ("a = [1,\n1]", 2, "stands twice"),
            (
                "a = '$p.c'\n[axes]\np = { pairs = [1, 2] }",
                1,
                "no field 'c'",
            ),
            ("a = '$p'\n[axes]\np = 3", 3, "is a list"),
        ] {
            let error = run(text).unwrap_err();
            assert_eq!(error.line(), Some(line), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
