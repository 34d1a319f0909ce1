//! What is said about plans of trees that come.

use super::sides::Model;
use howdah_core::ObjectId;
use howdah_session::message::Message;
use howdah_session::plans::PlanPlace;
use howdah_session::server::{Order, Server};
use howdah_session::{PathBytes, TreeOptions};

/// What an object of a copy that is asked for otherwise is called.
const OBJECT: ObjectId = ObjectId::new(0);

fn put() -> Message {
    Message::Put {
        object: OBJECT,
        path: "x".into(),
        name: None,
        size: Some(1),
        hash: false,
        source: None,
        resume: false,
        reread: false,
        mode: None,
    }
}

fn get() -> Message {
    Message::Get {
        path: "x".into(),
        window_end: None,
        hash: false,
        held: None,
        values: false,
    }
}

fn put_tree() -> Message {
    Message::TreePut {
        manifest: ObjectId::new(0),
        packs: ObjectId::new(1),
        path: PathBytes::from("y"),
        several: false,
        options: TreeOptions::default(),
    }
}

fn verify_tree() -> Message {
    Message::TreeVerify {
        answers: ObjectId::new(0),
        path: PathBytes::from("y"),
        options: TreeOptions::default(),
    }
}

/// A client that is allowed to put a tree into a room is not to be heard as if it still spoke of that room when it asks for something else.
#[test]
fn h17_where_a_tree_goes_in_a_plan_holds_for_the_next_request_alone() {
    let into = || PlanPlace {
        path: "x".into(),
        plan: "p".into(),
        run: None,
    };
    for other in [put(), get(), verify_tree(), Message::OpenFiles] {
        let mut server = Server::<Model>::new(None);
        let order = server.hear(Message::IntoPlan(into())).unwrap();
        assert!(matches!(order, Order::Nothing));
        let order = server.hear(other.clone()).unwrap();
        assert!(!matches!(order, Order::Tree(_, Some(_))), "{order:?}");
        server.end();
        let order = server.hear(put_tree()).unwrap();
        assert!(matches!(order, Order::Tree(_, None)), "{other:?}");
    }
    let mut server = Server::<Model>::new(None);
    server.hear(Message::IntoPlan(into())).unwrap();
    let order = server.hear(put_tree()).unwrap();
    assert!(matches!(&order, Order::Tree(_, Some(place)) if *place == into()));
    server.end();
    // Not for the one after it, either.
    let order = server.hear(put_tree()).unwrap();
    assert!(matches!(order, Order::Tree(_, None)));
}
