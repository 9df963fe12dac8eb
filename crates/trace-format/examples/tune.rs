use rustix::time::{ClockId, clock_gettime};
use trace_format::*;
fn cpu() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
fn main() {
    let encoders = Encoders::default();
    let mut geo = [[0f64; 2]; 2];
    for data in [false, true] {
        for file in std::env::args().skip(2) {
            let raw = std::fs::read(&file).unwrap();
            let mut bytes = Vec::new();
            let n = raw.len() / 32;
            for e in raw.as_chunks::<32>().0 {
                let w = |i: usize| u64::from_le_bytes(e[i * 8..i * 8 + 8].try_into().unwrap());
                let meta = w(0);
                bytes.extend((meta & ((1 << 48) - 1)).to_le_bytes());
                bytes.extend(&e[8..24]);
                let full = meta >> 48 & 1 != 0;
                let size = if full { 8 } else { (w(3) >> 32) as u32 };
                bytes.extend(size.to_le_bytes());
                let (vlen, value) = if full { (8, w(3)) } else { (4, w(3) & 0xffff_ffff) };
                bytes.extend([(meta >> 49) as u8, if data { vlen } else { 0 }, 0, 0]);
                if data {
                    bytes.extend(value.to_le_bytes());
                }
            }
            let t = EntryType {
                guid: Guid([0; 16]),
                name: "x".into(),
                entry_bytes: if data { 40 } else { 32 },
                fields: vec![],
            };
            let id: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
            let enc = encoders.get(id).unwrap();
            let t0 = cpu();
            let parts = enc.encode(&t, &bytes);
            let t1 = cpu();
            let mut size = 0;
            let mut detail = String::new();
            let mut stored = Vec::new();
            for p in &parts {
                let z = if p.coding == Coding::Zstd {
                    zstd::bulk::compress(&p.bytes, 3).unwrap()
                } else {
                    p.bytes.clone()
                };
                size += z.len();
                detail += &format!(" {}:{}>{}", p.kind, p.bytes.len() / 1000, z.len() / 1000);
                stored.push(z);
            }
            let t2 = cpu();
            for (p, z) in parts.iter().zip(&stored) {
                if p.coding == Coding::Zstd {
                    zstd::bulk::decompress(z, p.bytes.len()).unwrap();
                }
            }
                        let mut out = vec![1u8; bytes.len()]; out.clear();
            let t3 = cpu(); enc.decode(&t, n, &parts, &mut out).unwrap();
            let t4 = cpu();
            assert!(out == bytes);
            let b = size as f64 / n as f64;
            geo[data as usize][0] += b.ln();
            geo[data as usize][1] += 1.0;
            println!(
                "{file} data={data}: {b:.4} B enc {:.1}+{:.1} dec {:.1}+{:.1} ns |{detail}",
                (t1 - t0) / n as f64,
                (t2 - t1) / n as f64,
                (t4 - t3) / n as f64,
                (t3 - t2) / n as f64
            );
        }
        println!("geo {:.4}", (geo[data as usize][0] / geo[data as usize][1]).exp());
    }
}
