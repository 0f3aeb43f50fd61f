//! A private view of some directories: a mount namespace in which an overlay in memory covers each of them. And a private
//! network: a namespace with nothing but the loopback interface.
//!
//! A user namespace is made too if that is needed to be allowed to mount. In it, the program has the same user and group.
//! Its other groups have no effect there, and files of other users seem to belong to nobody.

use super::check;
use crate::Error;
use std::{
    ffi::{CStr, CString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use unsnarl_model::Program;

/// Everything that is needed between fork and exec, where nothing may be allocated.
#[derive(Debug)]
pub(crate) struct PrivateView {
    overlays: Vec<Overlay>,
    /// The user and the group as the user namespace knows them.
    users: CString,
    groups: CString,
    /// The directory that the program runs in.
    cwd: CString,
    /// It has a network of its own.
    has_network: bool,
}

#[derive(Debug)]
struct Overlay {
    /// The covered directory. A file system in memory is mounted there first, which has the changes.
    directory: CString,
    /// Directories of that file system.
    upper: CString,
    work: CString,
    options: CString,
    /// In a user namespace.
    user_options: CString,
}

impl PrivateView {
    /// Prepares a private view of these directories, and a private network if `has_network`; `None` for neither.
    pub(crate) fn new(
        directories: &[PathBuf],
        has_network: bool,
        program: &Program,
    ) -> Result<Option<Arc<Self>>, Error> {
        if directories.is_empty() && !has_network {
            return Ok(None);
        }
        // SAFETY: the calls have no arguments and no effect.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let build = || -> io::Result<Self> {
            Ok(Self {
                overlays: directories
                    .iter()
                    .map(|directory| Overlay::new(directory))
                    .collect::<io::Result<_>>()?,
                users: CString::new(format!("{user} {user} 1\n"))?,
                groups: CString::new(format!("{group} {group} 1\n"))?,
                cwd: CString::new(program.cwd.as_str())?,
                has_network,
            })
        };
        let failed = |cause| Error::System { action: "cannot prepare a private view", cause };
        Ok(Some(Arc::new(build().map_err(failed)?)))
    }

    /// Enters the view. Runs between fork and exec.
    pub(super) fn enter(&self) -> io::Result<()> {
        let none = std::ptr::null();
        // SAFETY: the calls affect only the calling process, and all strings end with a zero.
        unsafe {
            let namespaces = libc::CLONE_NEWNS | if self.has_network { libc::CLONE_NEWNET } else { 0 };
            let in_user_namespace = libc::unshare(namespaces) < 0;
            if in_user_namespace {
                check(libc::unshare(libc::CLONE_NEWUSER | namespaces))?;
                // Kernels that do not have the first file do not need it.
                let _ = write_file(c"/proc/self/setgroups", c"deny");
                write_file(c"/proc/self/uid_map", &self.users)?;
                write_file(c"/proc/self/gid_map", &self.groups)?;
            }
            if self.has_network {
                start_loopback()?;
                // A port can be taken again at once. If that is not allowed, it can be taken later.
                let _ = write_file(c"/proc/sys/net/ipv4/tcp_max_tw_buckets", c"0");
            }
            check(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
            self.overlays.iter().try_for_each(|overlay| overlay.mount(in_user_namespace))?;
            check(libc::chdir(self.cwd.as_ptr()))
        }
    }
}

impl Overlay {
    fn new(directory: &Path) -> io::Result<Self> {
        let path = directory.as_os_str().as_bytes();
        let below = |name: &[u8]| [path, b"/", name].concat();
        let [upper, work] = [below(b"upper"), below(b"work")];
        let options = |more: &[u8]| {
            // The current directory is the covered one.
            let all = [b"lowerdir=.,upperdir=", &*escaped(&upper), b",workdir=", &*escaped(&work), more];
            CString::new(all.concat())
        };
        Ok(Self {
            options: options(b"")?,
            user_options: options(b",userxattr")?,
            directory: CString::new(path)?,
            upper: CString::new(upper.clone())?,
            work: CString::new(work.clone())?,
        })
    }

    /// # Safety
    /// The calling process has its own mount namespace.
    unsafe fn mount(&self, in_user_namespace: bool) -> io::Result<()> {
        let Self { directory, upper, work, options, user_options } = self;
        let options = if in_user_namespace { user_options } else { options };
        let (memory, overlay) = (c"tmpfs".as_ptr(), c"overlay".as_ptr());
        // SAFETY: all strings end with a zero; mounts are the caller's contract.
        unsafe {
            check(libc::chdir(directory.as_ptr()))?;
            let mut status: libc::stat = std::mem::zeroed();
            check(libc::stat(directory.as_ptr(), &raw mut status))?;
            check(libc::mount(memory, directory.as_ptr(), memory, 0, c"mode=700".as_ptr().cast()))?;
            check(libc::mkdir(upper.as_ptr(), 0o700))?;
            check(libc::mkdir(work.as_ptr(), 0o700))?;
            // The covered directory looks as before. Its owner may be unknown here.
            libc::chown(upper.as_ptr(), status.st_uid, status.st_gid);
            check(libc::chmod(upper.as_ptr(), status.st_mode & 0o7777))?;
            check(libc::mount(overlay, directory.as_ptr(), overlay, 0, options.as_ptr().cast()))
        }
    }
}

/// Starts the loopback interface of a new network.
fn start_loopback() -> io::Result<()> {
    // SAFETY: the request names the interface, and the socket is closed here.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(socket.min(0))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        (request.ifr_name[0], request.ifr_name[1]) = (b'l' as libc::c_char, b'o' as libc::c_char);
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        let result = check(libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request));
        libc::close(socket);
        result
    }
}

/// Escapes the characters that separate options and directories.
fn escaped(path: &[u8]) -> Vec<u8> {
    let escape = |byte: u8| matches!(byte, b'\\' | b',' | b':').then_some(b'\\');
    path.iter().flat_map(|&byte| escape(byte).into_iter().chain([byte])).collect()
}

/// Writes to a file of the kernel, in one call.
unsafe fn write_file(path: &CStr, text: &CStr) -> io::Result<()> {
    // SAFETY: the strings end with a zero, and the descriptor is closed here.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(fd.min(0))?;
        let written = libc::write(fd, text.as_ptr().cast(), text.count_bytes());
        let error = io::Error::last_os_error();
        libc::close(fd);
        if written == text.count_bytes() as isize { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_a_path_are_escaped() {
        assert_eq!(escaped(br"/a:b,c\d"), br"/a\:b\,c\\d");
    }
}
