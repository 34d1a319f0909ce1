//! `howdah schedule`: from the command line to the daemon and back.
#![cfg(target_os = "linux")]

use crate::support::Site;
use crate::support::process::ok;
use crate::support::service::Service;
use serde_json::Value;

fn show(service: &Service<'_>, id: &str) -> Value {
    serde_json::from_str(&ok(&service.ask(&["schedule", "show", "--json", id]))).unwrap()
}

#[test]
fn a_schedule_is_added_told_of_paused_resumed_and_removed() {
    let site = Site::new(120);
    let mut service = Service::new(&site, &[]);
    let add = [
        "schedule",
        "add",
        "30 2 * * 1-5",
        "--zone",
        "UTC",
        "--missed",
        "skip",
        "--overlap",
        "allow",
        "--label",
        "nightly",
        "--priority",
        "-3",
        "--by",
        "06:00",
        "--deadline",
        "5h",
        "--",
        "sync",
        "--delete",
        "data",
        "site:data",
    ];
    let id = ok(&service.ask(&add));
    let shown = show(&service, &id);
    assert_eq!(shown["spec"]["job"]["arguments"][0], "--delete", "{shown}");
    assert_eq!(shown["spec"]["job"]["priority"], -3, "{shown}");
    assert_eq!(shown["spec"]["missed"], "skip", "{shown}");
    let times = &shown["spec"]["times"];
    assert_eq!(
        (&times["by"], &times["deadline_seconds"]),
        (&"06:00".into(), &18_000.into()),
        "{shown}"
    );
    assert_eq!(shown["spec"]["overlap"], "allow", "{shown}");
    let next = shown["next_ms"].as_u64().unwrap();
    let line = ok(&service.ask(&["schedule", "list"]));
    assert!(
        line.starts_with(&format!("{id}  next 2"))
            && line.contains("sync --delete data site:data  [nightly]"),
        "{line}"
    );
    let paused = ok(&service.ask(&["schedule", "pause", &id]));
    assert!(paused.contains("paused"), "{paused}");
    // Also for the next daemon.
    service.kill();
    service.start(&[]);
    let shown = show(&service, &id);
    assert_eq!(
        (&shown["paused"], &shown["next_ms"]),
        (&Value::Bool(true), &Value::Null),
        "{shown}"
    );
    let text = ok(&service.ask(&["schedule", "show", &id]));
    assert!(
        text.contains("what was missed does not run")
            && text.contains("may overlap")
            && text.contains("is to be done by 06:00, has failed"),
        "{text}"
    );
    ok(&service.ask(&["schedule", "resume", &id]));
    let shown = show(&service, &id);
    assert_eq!(shown["paused"], false, "{shown}");
    assert!(shown["next_ms"].as_u64().unwrap() >= next, "{shown}");
    ok(&service.ask(&["schedule", "remove", &id]));
    for name in ["show", "remove", "pause", "resume"] {
        service
            .ask(&["schedule", name, &id])
            .assert_failed(3, &["there is no schedule"]);
    }
    assert_eq!(ok(&service.ask(&["schedule", "list", "--json"])), "");
}

#[test]
fn what_makes_no_sense_is_refused_when_it_is_added() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    for (args, part) in [
        (&["nonsense", "--", "verify", "a", "b"][..], "nonsense"),
        (
            &["* * * * * *", "--", "verify", "a", "b"],
            "no time of a schedule",
        ),
        (
            &["@daily", "--zone", "Nowhere/City", "--", "verify", "a", "b"],
            "no time zone",
        ),
        // The day comes before the month; here is no thirtieth of February.
        (&["0 0 30 2 *", "--", "verify", "a", "b"], "never comes"),
        (&["@daily", "--", "serve", "--root", "/"], "a job is cp"),
        (&["@daily", "--", "sync", "a", "b"], "both local"),
        (
            &["@daily", "--", "cp", "--ssh", "sh", "a", "h:b"],
            "program to run",
        ),
        (&["@daily", "--", "verify", "a"], "required"),
        (
            &["@daily", "--missed", "twice", "--", "verify", "a", "b"],
            "twice",
        ),
        (
            &["@daily", "--by", "06:00", "--", "verify", "a", "b"],
            "move bytes",
        ),
        (&["@daily", "--by", "soon", "--", "cp", "a", "h:b"], "06:00"),
        (
            &["@daily", "--after", "3", "--", "cp", "a", "h:b"],
            "after no other one",
        ),
    ] {
        let done = service.ask(&[&["schedule", "add"], args].concat());
        done.assert_failed(2, &[part]);
    }
    assert_eq!(ok(&service.ask(&["schedule", "list", "--json"])), "");
}
