//! A kernel without `membarrier`: straddlers are refused with the reason, everything else works, and the
//! paper's wait can be chosen. This is a separate file, since the filter applies to the whole process.
#![cfg(not(loom))]

use patch::{CallSite, CodeAddr, Encoding, Refusal, Separation, barrier, near, patch_all};

/// Makes the kernel answer `membarrier` as one that has none.
fn forbid_membarrier() {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_membarrier as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program outlives the calls; they only take rights from this process.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

/// `nop5; ret` with the nop `before` bytes before the end of a line.
fn function(before: usize) -> CodeAddr {
    let place = near::allocate_near(function as *const () as usize, 192).unwrap().next_multiple_of(64);
    let at = place + 64 - before;
    let code = [0x0f, 0x1f, 0x44, 0, 0, 0xc3];
    // SAFETY: fresh executable memory of this test.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
    CodeAddr(at)
}

#[test]
fn without_membarrier_straddlers_are_refused_and_the_rest_works() {
    const OTHER: u64 = 0x0001_0203_04a9;
    forbid_membarrier();
    assert_eq!(barrier::separation(), Separation::Unavailable);
    let (inside, across) = (function(32), function(2));
    // SAFETY: a nop and `test eax, imm32`; nothing executes them.
    unsafe { patch::patch(inside, 5, OTHER) }.unwrap();
    // SAFETY: one instruction of five bytes for another; nothing executes them.
    let error = unsafe { patch::patch(across, 5, OTHER) }.unwrap_err();
    assert_eq!(error.refusal, Refusal::NoSeparation);
    assert!(error.to_string().contains("membarrier"), "{error}");
    // SAFETY: code of this test.
    assert_eq!(unsafe { (across.0 as *const u8).read() }, 0x0f, "nothing was written");
    let sites = [inside, across].map(|at| patch::Site::open(at, 5).unwrap());
    // SAFETY: one instruction of five bytes for another; nothing executes them.
    let results = unsafe { patch_all(&sites.map(|site| (site, OTHER + 0x100))) };
    assert!(results[0].is_ok());
    assert_eq!(results[1].unwrap_err().refusal, Refusal::NoSeparation);
    // A call is switched by one byte wherever it lies, once its displacement is there.
    let callee = CodeAddr(inside.0 + 5);
    // SAFETY: the nop of a function that nothing executes.
    let call = unsafe { CallSite::prepare(function(32), callee, Encoding::OneByte) }.unwrap();
    call.activate().unwrap();
    call.deactivate().unwrap();
    // The paper's wait, for those who measured it.
    barrier::set_separation(Separation::Wait { ticks: 20_000 });
    // SAFETY: one instruction of five bytes for another; nothing executes them.
    unsafe { patch::patch(across, 5, OTHER) }.unwrap();
    // SAFETY: code of this test.
    assert_eq!(unsafe { (across.0 as *const u8).read() }, 0xa9);
}
