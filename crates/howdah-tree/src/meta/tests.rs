use super::*;
use howdah_store::rights::AclEntry;

fn keeper(numeric_ids: bool) -> Keeper {
    let options = TreeOptions {
        archive: true,
        numeric_ids,
        ..TreeOptions::default()
    };
    Keeper::new(&options, Metadata::All).unwrap()
}

#[test]
fn t07_an_acl_that_cannot_be_kept_opens_the_file_to_nobody() {
    let file = tempfile::tempfile().unwrap();
    let mode = || {
        let mode = rustix::fs::fstat(&file).unwrap().st_mode;
        mode & 0o777
    };
    // No ACL at all; and one whose group has less than its mask, to which this file's bits belong.
    let entry = |tag, perm| AclEntry {
        tag,
        perm,
        id: u32::MAX,
    };
    let mut without_owner = [entry(Tag::GroupObj, 4), entry(Tag::Mask, 6)];
    let without_owner = rights::acl_of_entries(&mut without_owner);
    for (acl, left) in [(b"nonsense".to_vec(), 0o600), (without_owner, 0o640)] {
        let meta = Meta {
            mode: 0o660,
            xattrs: vec![(rights::ACCESS.to_vec(), acl)],
            ..Meta::default()
        };
        let not_kept = keeper(false).apply(&file, &meta, false);
        assert_eq!(mode(), left, "{not_kept:?}");
        assert!(
            not_kept
                .iter()
                .any(|(what, _)| *what == "extended attribute")
        );
    }
}

#[test]
fn t07_entries_of_acls_go_by_name_and_never_to_somebody_else() {
    let entry = |tag, id| AclEntry { tag, perm: 6, id };
    let mut list = [
        entry(Tag::UserObj, u32::MAX),
        entry(Tag::User, 4001),
        entry(Tag::User, 4002),
        entry(Tag::User, 4003),
        entry(Tag::GroupObj, u32::MAX),
        entry(Tag::Group, 4001),
        entry(Tag::Mask, u32::MAX),
        entry(Tag::Other, u32::MAX),
    ];
    let there = rights::acl_of_entries(&mut list);
    let xattrs: Xattrs = [rights::ACCESS, rights::DEFAULT]
        .map(|name| (name.to_vec(), there.clone()))
        .to_vec();
    let meta = Meta {
        owner: Some((4001, 4001)),
        xattrs,
        ..Meta::default()
    };
    let named: Vec<_> = named_in_acls(&meta.xattrs).take(4).collect();
    assert_eq!(
        named,
        [(false, 4001), (false, 4002), (false, 4003), (true, 4001)]
    );

    let keeper = keeper(false);
    assert_eq!(keeper.learn(false, 4001, b"root"), None);
    assert_eq!(keeper.learn(true, 4001, b"root"), None);
    let told = keeper.learn(false, 4002, b"nobody-is-called-so");
    assert!(told.unwrap().contains("\"nobody-is-called-so\""));
    assert!(
        keeper.learn(false, 4002, b"nobody-is-called-so").is_none(),
        "once"
    );
    for (_, value) in keeper.attributes(&meta, Kept::ALL) {
        let ids: Vec<_> = rights::entries(&value)
            .unwrap()
            .into_iter()
            .filter(|entry| matches!(entry.tag, Tag::User | Tag::Group))
            .map(|entry| (entry.tag, entry.id))
            .collect();
        // The one without a name at the source keeps its number; the unknown one goes.
        assert_eq!(ids, [(Tag::User, 0), (Tag::User, 4003), (Tag::Group, 0)]);
    }
    assert!(keeper.is_owner(&meta, 0, 0));

    let keeper = self::keeper(true);
    assert_eq!(keeper.learn(false, 4001, b"root"), None);
    assert_eq!(keeper.learn(false, 4002, b"nobody-is-called-so"), None);
    assert_eq!(keeper.attributes(&meta, Kept::ALL), meta.xattrs);
    assert!(keeper.is_owner(&meta, 4001, 4001));
}

#[test]
fn bits_that_were_meant_for_another_group_or_owner_are_for_nobody() {
    let keeper = keeper(false);
    let with = |mode| Meta {
        mode,
        ..Meta::default()
    };
    let (group, user) = (
        Kept {
            user: true,
            group: false,
        },
        Kept {
            user: false,
            group: true,
        },
    );
    for (asked, kept, is_dir, gets) in [
        (0o4750, Kept::ALL, false, 0o4750),
        (0o4750, user, false, 0o750),
        (0o6771, group, false, 0o711),
        (0o664, group, false, 0o644),
        (0o660, group, false, 0o600),
        (0o1775, group, true, 0o1755),
        (0o750, group, true, 0o700),
    ] {
        let mode = keeper.mode_of(&with(asked), is_dir, kept, 0);
        assert_eq!(mode, Some(gets), "{asked:o} {kept:?} {is_dir}");
    }
    // With an ACL these bits are its mask, and its own entry has the group's.
    let entry = |tag, perm, id| AclEntry { tag, perm, id };
    let of_group = |perm| {
        rights::acl_of_entries(&mut [
            entry(Tag::UserObj, 6, u32::MAX),
            entry(Tag::User, 6, 70_001),
            entry(Tag::GroupObj, perm, u32::MAX),
            entry(Tag::Mask, 6, u32::MAX),
            entry(Tag::Other, 4, u32::MAX),
        ])
    };
    let meta = Meta {
        mode: 0o664,
        xattrs: vec![(rights::ACCESS.to_vec(), of_group(6))],
        ..Meta::default()
    };
    assert_eq!(keeper.mode_of(&meta, false, group, 0), Some(0o664));
    assert_eq!(keeper.attributes(&meta, group)[0].1, of_group(4));
}

/// Who knows the names may be far away, and a peer says as many as it likes.
#[test]
fn h13_names_are_looked_up_once_each_and_so_many_at_most() {
    use crate::accounts::ASKED;
    let keeper = keeper(false);
    let asked = |id, name: &str| {
        let before = ASKED.get();
        keeper.learn(false, id, name.as_bytes());
        ASKED.get() - before
    };
    assert_eq!(asked(4001, "root"), 1);
    for name in ["root", "daemon", "nobody-is-called-so"] {
        assert_eq!(asked(4001, name), 0, "{name}");
    }
    // The first word counts.
    let meta = Meta {
        owner: Some((4001, 4001)),
        ..Meta::default()
    };
    assert_eq!(keeper.wanted_owner(&meta).0.map(Uid::as_raw), Some(0));
    let most = bounds::OWNERS as u32;
    let full = (0..most).map(|id| (10_000 + id, Here::Unknown));
    keeper.users.lock().unwrap().extend(full);
    assert_eq!(asked(5, "root"), 0);
    assert!(keeper.users.lock().unwrap().len() <= bounds::OWNERS + 1);
}
