//! Names that the kernel takes, and private ones.

/// Size of the kernel's field for a name, in bytes (`TCP_CA_NAME_MAX`); the last is zero.
const FIELD_BYTES: usize = 16;
/// A name as the kernel holds it.
pub(crate) type Field = [u8; FIELD_BYTES];
/// Length of what is appended for a private name.
pub(crate) const SUFFIX_BYTES: usize = 3;

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// `name` with three digits in base 36 made from `number`. `name` has at most 12 bytes.
pub(crate) fn private(name: &str, number: u32) -> String {
    let mut private = String::from(name);
    for place in (0..SUFFIX_BYTES as u32).rev() {
        let digit = number / 36u32.pow(place) % 36;
        private.push(char::from(DIGITS[digit as usize]));
    }
    private
}

/// `name` as the kernel holds it: at most 15 bytes, then zeros.
pub(crate) fn field(name: &str) -> Field {
    let mut field = [0; FIELD_BYTES];
    for (byte, &of_name) in field[..FIELD_BYTES - 1].iter_mut().zip(name.as_bytes()) {
        *byte = of_name;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_ends_with_a_zero() {
        assert_eq!(&field("bpf_bic"), b"bpf_bic\0\0\0\0\0\0\0\0\0");
        assert_eq!(&field("0123456789abcdefgh"), b"0123456789abcde\0");
    }

    #[test]
    fn a_private_name_has_three_digits_of_its_number() {
        assert_eq!(private("bpf_bic", 0), "bpf_bic000");
        assert_eq!(private("bpf_bic", 35), "bpf_bic00z");
        assert_eq!(private("bpf_bic", 36 * 36 + 1), "bpf_bic101");
        assert_eq!(private("bpf_scalable", u32::MAX).len(), FIELD_BYTES - 1);
    }
}
