//! Embeds the playground's built files, if `BBRLAB_WEB` names their directory (`make web` builds it). A plain build needs no node.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Extension of the packed copy that `web/build.mjs` writes beside each file.
const PACKED: &str = "gz";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=BBRLAB_WEB");
    let files = match env::var_os("BBRLAB_WEB").filter(|dir| !dir.is_empty()) {
        Some(dir) => packed_files(Path::new(&dir))?,
        None => Vec::new(),
    };
    let rows: Vec<String> = files
        .iter()
        .map(|path| {
            println!("cargo:rerun-if-changed={}", path.display());
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            format!("    ({name:?}, include_bytes!({:?})),\n", path.display().to_string())
        })
        .collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("play.rs");
    fs::write(out, format!("&[\n{}]\n", rows.concat()))
}

fn packed_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = dir.canonicalize()?;
    let mut files: Vec<PathBuf> = fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == PACKED))
        .collect();
    files.sort();
    Ok(files)
}
