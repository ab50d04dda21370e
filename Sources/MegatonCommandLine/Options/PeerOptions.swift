/// Options of other image tools that Megaton has under another name, for the hint of an unknown option.
enum PeerOptions {
    /// The text that replaces an option of vipsthumbnail, img2dataset, ImageMagick, sharp or imgproxy; nil if it is
    /// none of these, or if the command lacks the option that it stands for.
    ///
    /// - Parameters:
    ///   - name: with its dashes, in any case and with `_` or `-` between words.
    ///   - known: the names of the command's options, with dashes.
    static func replacement(of name: String, among known: some Sequence<String>) -> String? {
        let word = String(name.lowercased().drop { $0 == "-" }).replacing("_", with: "-")
        let found = all.first { $0.words.contains(word) }
        guard let found, known.contains(found.option) else { return nil }
        return "\(found.option) \(found.value)"
    }

    private static let all: [(words: Set<String>, option: String, value: String)] = [
        (["width", "w"], "--size", "320x"),
        (["height"], "--size", "x240"),
        (["resize", "thumbnail", "image-size", "dimensions", "geometry", "max-size"], "--size", "320x240"),
        (["crop", "smartcrop"], "--fit", "cover"),
        (["resize-mode", "resizing-type"], "--fit", "cover"),
        (["out", "outdir", "out-dir", "output-dir", "output-folder", "output-path", "dest"], "--output", "PATH"),
        (["output-format", "encode-format", "type", "ext", "extension"], "--format", "webp"),
        (["encode-quality", "q"], "--quality", "80"),
        (["url-col"], "--url-column", "NAME"),
        (["processes-count", "thread-count", "threads", "jobs", "parallel", "workers"], "--concurrency", "N"),
        (["retries", "max-retries", "tries"], "--attempts", "N"),
        (["save-metadata", "write-report"], "--ledger", "FILE"),
        (["number-sample-per-shard"], "--shard-count", "N"),
    ]
}
