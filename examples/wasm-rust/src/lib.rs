//! A scheduler plugin as a WebAssembly module. Its configuration is the key of a label. A pod with that label runs only on nodes with the same
//! value, and any other pod rather on nodes without the label. Build it with
//!
//!     cargo build --release --target wasm32-unknown-unknown

use std::collections::HashMap;

// The host writes its answers to a buffer, and returns their sizes. An answer that is larger than the limit is not written.
#[link(wasm_import_module = "k8s.io/scheduler")]
extern "C" {
    #[link_name = "get_config"]
    fn host_config(buf: *mut u8, limit: u32) -> u32;
    #[link_name = "currentPod"]
    fn host_pod(buf: *mut u8, limit: u32) -> u32;
    #[link_name = "currentNodeName"]
    fn host_node_name(buf: *mut u8, limit: u32) -> u32;
    #[link_name = "result.status_reason"]
    fn set_reason(text: *const u8, size: u32);
}

#[link(wasm_import_module = "k8s.io/api")]
extern "C" {
    #[link_name = "node"]
    fn host_node(name: *const u8, size: u32, buf: *mut u8, limit: u32) -> u32;
}

// Codes of statuses.
const SUCCESS: u32 = 0;
const UNSCHEDULABLE: u32 = 2;

#[no_mangle]
pub extern "C" fn filter() -> u32 {
    let key = config();
    match pod_labels().get(&key) {
        Some(want) if node_labels().get(&key) != Some(want) => {
            let reason = format!("node(s) without the label {key}={want}");
            unsafe { set_reason(reason.as_ptr(), reason.len() as u32) };
            UNSCHEDULABLE
        }
        _ => SUCCESS,
    }
}

/// Returns the score and the code in one number.
#[no_mangle]
pub extern "C" fn score() -> u64 {
    let score = if node_labels().contains_key(&config()) {
        0
    } else {
        100
    };
    score << 32 | u64::from(SUCCESS)
}

fn config() -> String {
    String::from_utf8_lossy(&read(|buf, limit| unsafe { host_config(buf, limit) })).into_owned()
}

fn pod_labels() -> HashMap<String, String> {
    labels(&read(|buf, limit| unsafe { host_pod(buf, limit) }))
}

fn node_labels() -> HashMap<String, String> {
    let name = read(|buf, limit| unsafe { host_node_name(buf, limit) });
    labels(&read(|buf, limit| unsafe {
        host_node(name.as_ptr(), name.len() as u32, buf, limit)
    }))
}

/// Returns an answer of the host.
fn read(answer: impl Fn(*mut u8, u32) -> u32) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let size = answer(buf.as_mut_ptr(), buf.len() as u32) as usize;
    if size > buf.len() {
        buf.resize(size, 0);
        answer(buf.as_mut_ptr(), size as u32);
    }
    buf.truncate(size);
    buf
}

/// Returns the labels of a Pod or a Node: field 11 of its metadata, which is field 1.
fn labels(object: &[u8]) -> HashMap<String, String> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut out = HashMap::new();
    for (_, metadata) in fields(object)
        .into_iter()
        .filter(|(number, _)| *number == 1)
    {
        for (_, entry) in fields(metadata)
            .into_iter()
            .filter(|(number, _)| *number == 11)
        {
            let pair: HashMap<u64, &[u8]> = fields(entry).into_iter().collect();
            let part = |number| {
                pair.get(&number)
                    .map(|value| text(value))
                    .unwrap_or_default()
            };
            out.insert(part(1), part(2));
        }
    }
    out
}

/// Returns the fields of a protobuf message that are messages, strings or bytes, with their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    let mut out = Vec::new();
    while let Some(tag) = varint(&mut message) {
        let size = match tag & 7 {
            0 => varint(&mut message).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut message),
            5 => Some(4),
            _ => None,
        };
        match size {
            Some(size) if size as usize <= message.len() => {
                let (value, rest) = message.split_at(size as usize);
                if tag & 7 == 2 {
                    out.push((tag >> 3, value));
                }
                message = rest;
            }
            _ => break,
        }
    }
    out
}

/// Takes a number from the start of a message.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut out = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        out |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(out);
        }
    }
    None
}
