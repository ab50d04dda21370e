import MegatonCommandLine

/// Inputs that a command has left out.
struct LeftOutInputs: Sendable {
    /// Files of directories and buckets whose extensions are not those of images.
    var skipped = SkippedFiles()
    /// Number of those that match `--exclude`.
    var excluded = 0
    /// Number of links to directories, which are not followed.
    var links = 0
    /// Number of directories that could not be read, whose images are missing.
    var unreadable = 0

    /// Reports them, if there are any.
    ///
    /// - Parameter canAllowTypes: whether the command has `--allow-type`, which reads some of the files.
    func report(canAllowTypes: Bool) {
        if let remark = skipped.remark {
            Terminal.note("megaton: \(remark)\(canAllowTypes ? WorkerOptions.remedy(for: skipped) : "")")
        }
        if links > 0 {
            let links = Counted.of(links, "link to a directory", "links to directories")
            Terminal.note("megaton: \(links) not followed; name the directory as an argument if it is wanted.")
        }
        if excluded > 0 { Terminal.note("megaton: \(Counted.of(excluded, "input")) left out by --exclude.") }
        if unreadable > 0 {
            let directories = Counted.of(unreadable, "directory", "directories")
            Terminal.error(
                "megaton: \(directories) could not be read, so that \(unreadable == 1 ? "its" : "their") images are "
                    + "missing; the messages above name \(unreadable == 1 ? "it" : "them"). --exclude leaves out "
                    + "directories that are not wanted."
            )
        }
    }
}
