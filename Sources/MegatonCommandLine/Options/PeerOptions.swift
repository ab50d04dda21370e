/// Options of other image tools that Megaton has under another name, for the hint of an unknown option.
enum PeerOptions {
    /// The text that replaces an option of vipsthumbnail, img2dataset, ImageMagick, sharp or imgproxy; nil if it is
    /// none of these, or if the command lacks the options that it stands for.
    ///
    /// - Parameters:
    ///   - name: with its dashes, in any case and with `_` or `-` between words.
    ///   - known: the names of the command's options, with dashes.
    static func replacement(of name: String, among known: some Sequence<String>) -> String? {
        let word = String(name.lowercased().drop { $0 == "-" }).replacing("_", with: "-")
        if inputs.contains(word) { return "its value without an option" }
        let found = all.first { $0.words.contains(word) && known.contains($0.option) }
        return found.map { $0.value.isEmpty ? $0.option : "\($0.option) \($0.value)" }
    }

    /// Names that are long enough to be recognized with a mistake.
    static let longWords = inputs.union(all.flatMap(\.words)).filter { $0.count > 4 }.sorted()

    /// Options for inputs, which are arguments here.
    private static let inputs: Set<String> = ["url-list", "input", "inputs", "input-file", "infile"]

    /// Of rows with the same word, the first one counts whose option the command has.
    private static let all: [(words: Set<String>, option: String, value: String)] = [
        (["width", "w"], "--size", "320x"),
        (["s"], "--size", "320x240"),
        (["height"], "--size", "x240"),
        (["resize", "thumbnail", "image-size", "dimensions", "geometry", "max-size"], "--size", "320x240"),
        (["crop"], "--fit", "cover"), (["smartcrop"], "--fit", "cover --gravity attention"),
        (["resizing-type", "resize-mode"], "--fit", "cover, contain or inside"),
        (["position", "smart"], "--gravity", "attention"),
        (["upscale"], "--enlarge", ""),
        (["out", "outdir", "out-dir", "output-dir", "output-folder", "output-path"], "--output", "PATH"),
        (["dest", "destination"], "--output", "PATH"),
        (["prefix", "suffix", "rename"], "--name", "'{path}/{stem}-{name}.{ext}'"),
        (["output-format"], "--format", "webp (and --output tar:DIR for shards)"),
        (["encode-format", "type", "ext", "extension", "f"], "--format", "webp"),
        (["export-profile", "eprofile"], "--profile", "srgb"), (["delete"], "--delete-orphans", ""),
        (["encode-quality", "q"], "--quality", "80"),
        (["interlace", "interlaced"], "--progressive", ""),
        (["sampling-factor", "subsampling", "chroma-subsampling", "chromasubsampling"], "--chroma", "444"),
        (["withmetadata", "with-metadata"], "--keep-metadata", "copyright"),
        (["url-col"], "--url-column", "NAME"),
        (["id-col"], "--id-column", "NAME"),
        (["caption-col", "caption-column", "save-additional-columns"], "--label-columns", "NAME"),
        (["processes-count", "jobs", "parallel", "num-workers", "nproc", "threads"], "--workers", "N"),
        (["thread-count", "threads", "jobs", "parallel"], "--concurrency", "N"),
        (["retry", "retries", "max-retries", "tries"], "--attempts", "N"),
        (["number-sample-per-shard", "samples-per-shard"], "--shard-count", "N"),
        (["save-metadata", "write-report"], "--ledger", "FILE"),
        (["cache-dir"], "--local-cache", "DIR"),
        (["allow-dir", "root"], "--allow-root", "DIR"),
        (["silent"], "--quiet", ""),
    ]
}
