import Foundation
import MegatonCluster
import MegatonCommandLine

/// A directory of shards, and the one that is being written. One process at a time writes it.
///
/// Its calls block.
struct TarShards {
    /// The sizes at which a shard is full.
    struct Limits: Sendable {
        /// Bytes.
        var size: Int
        /// Samples.
        var count: Int
    }

    /// A line of a shard that the ledger does not have.
    private struct Line {
        /// Of the shard.
        let number: Int
        let member: ShardIndex.Member
    }

    /// Content of the manifest.
    private struct Manifest: Codable, Equatable {
        var renditions: String
        var version = 1
    }

    let path: String
    let known: KnownSamples
    private let limits: Limits
    private let manifest: ShardFile
    private var writer: ShardWriter?
    private var nextNumber = 0
    private var lines: ArraySlice<Line> = []
    private let listed: Set<ShortDigest>?

    /// Maximum number of bytes of an index or of a manifest: far more than a million samples take.
    private static let largestIndex = 4 * 1024 * 1024 * 1024

    /// Opens a directory, and recovers the shard that a killed process has left.
    ///
    /// - Parameters:
    ///   - renditions: digest of the renditions: shards of others are refused.
    ///   - listed: digests of the ledger's lines; nil without a ledger.
    ///   - known: gets the samples.
    ///   - isStopped: as that of ``ShardScan``.
    /// - Throws: `CLIError` if another process writes the directory, or if it cannot be used, or 130 if the reading was
    ///   stopped.
    init(
        _ path: String,
        limits: Limits,
        renditions: String,
        listed: Set<ShortDigest>?,
        known: KnownSamples = KnownSamples(),
        isStopped: () -> Bool = { false }
    ) throws {
        self.path = path
        self.limits = limits
        self.listed = listed
        self.known = known
        manifest = try ShardFile("\(path)/\(ShardNames.manifest)")
        do {
            try Self.check(manifest, renditions)
            let names = try Self.names(in: path)
            try Self.checkNames(names, in: path)
            let shards = names.compactMap(ShardNames.number).sorted { $0.number < $1.number }
            try open(shards, Set(names), isStopped)
        } catch {
            writer?.close()
            manifest.close()
            throw error
        }
    }

    /// Names of the files in a directory.
    static func names(in path: String) throws(CLIError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: path)
        } catch {
            throw CLIError.output("the directory \(path) cannot be read: \(CLIError.reason(error)).")
        }
    }

    /// An unfinished shard gets its final name, and would replace a whole one that was copied to the directory.
    private static func checkNames(_ names: [String], in path: String) throws(CLIError) {
        let all = Set(names)
        for name in names {
            guard let (number, isPartial) = ShardNames.number(name), isPartial else { continue }
            guard all.contains(ShardNames.archive(number)) else { continue }
            throw CLIError.output(
                "\(path) has both \(ShardNames.archive(number)) and \(name), which is the same shard unfinished. Move "
                    + "one of them to another directory; the same command again makes its samples anew."
            )
        }
    }

    /// Locks the manifest, and compares it or writes it.
    private static func check(_ file: ShardFile, _ renditions: String) throws {
        // Some network file systems have no locks, and there a second run is not kept out.
        if flock(file.descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK {
            let directory = (file.path as NSString).deletingLastPathComponent
            throw CLIError.output(
                "another process writes the shards in \(directory). Wait until it ends, or name another directory."
            )
        }
        guard try isNew(file, renditions) else { return }
        try file.write(try JSONEncoder().encode(Manifest(renditions: renditions)), at: 0)
        try file.sync()
    }

    /// Whether a manifest has not been written yet.
    ///
    /// - Throws: `CLIError` if it has, for other renditions.
    static func isNew(_ file: ShardFile, _ renditions: String) throws -> Bool {
        let text = try file.read(min(try file.size(), 64 * 1024), at: 0)
        if text.isEmpty { return true }
        guard let theirs = try? JSONDecoder().decode(Manifest.self, from: text) else {
            throw CLIError.usage(
                "\(file.path) is not the manifest of a directory of shards. Name another directory with --output tar:DIR."
            )
        }
        guard theirs == Manifest(renditions: renditions) else {
            let directory = (file.path as NSString).deletingLastPathComponent
            throw CLIError.usage(
                "\(directory) has shards of other renditions. Give the same options of renditions to continue them, or "
                    + "name another directory with --output tar:DIR."
            )
        }
        return false
    }

    private mutating func open(
        _ shards: [(number: Int, isPartial: Bool)],
        _ names: Set<String>,
        _ isStopped: () -> Bool
    ) throws {
        for (number, isPartial) in shards {
            // Indexes of many shards take their time, too.
            if isStopped() { throw ShardScan.interrupted(path) }
            nextNumber = max(nextNumber, number + 1)
            if isPartial {
                try finishShard()
                let writer = try ShardWriter(path, number: number, isStopped: isStopped)
                self.writer = writer
                try add(writer.samples, of: number)
            } else {
                let (samples, isIndexed) = try Self.samples(
                    of: number,
                    in: path,
                    names,
                    isStopped: isStopped
                )
                if !isIndexed { try ShardWriter.write(samples, number: number, in: path) }
                try add(samples, of: number)
            }
        }
        // The lines of recovered samples must not be written before the samples are durable.
        try writer?.commit()
    }

    /// The samples of a whole shard, and whether its index has them.
    ///
    /// - Parameters:
    ///   - names: of the files in the directory.
    ///   - isStopped: as that of ``ShardScan``.
    static func samples(
        of number: Int,
        in path: String,
        _ names: Set<String>,
        isStopped: () -> Bool = { false }
    ) throws -> (samples: [ShardIndex.Sample], isIndexed: Bool) {
        let archive = try ShardFile("\(path)/\(ShardNames.archive(number))", flags: O_RDONLY)
        defer { archive.close() }
        if names.contains(ShardNames.index(number)) {
            let file = try ShardFile("\(path)/\(ShardNames.index(number))", flags: O_RDONLY)
            defer { file.close() }
            let text = try file.read(min(try file.size(), largestIndex), at: 0)
            // An index that is not of this archive, which was moved or replaced, is written anew.
            let index = try? JSONDecoder().decode(ShardIndex.self, from: text)
            if let index, index.fits(number, size: try archive.size()) { return (index.samples, true) }
        }
        let scan = try ShardScan(archive, isStopped: isStopped)
        if scan.isTorn {
            throw CLIError.output(
                "the shard \(archive.path) is damaged behind \(Counted.of(scan.samples.count, "sample")), at byte "
                    + "\(scan.end). Move it to another directory; the same command again makes its samples anew."
            )
        }
        return (scan.samples, false)
    }

    private mutating func add(_ samples: [ShardIndex.Sample], of number: Int) throws {
        for sample in samples {
            try Self.checkRoom(in: known, path)
            _ = known.insert(sample.key)
            if let listed, let line = sample.members.last, !listed.contains(ShortDigest(hex: line.sha256)) {
                lines.append(Line(number: number, member: line))
            }
        }
    }

    /// - Throws: `CLIError` if a directory has its maximum of samples.
    static func checkRoom(in known: KnownSamples, _ path: String) throws(CLIError) {
        guard known.count < KnownSamples.limit else {
            throw CLIError.output(
                "\(path) has \(KnownSamples.limit) samples, the maximum of one directory. Name another one with --output "
                    + "tar:DIR."
            )
        }
    }

    // MARK: - Writing

    /// Appends a sample, and begins a new shard if this one is full.
    ///
    /// - Returns: false if a shard has a sample of this name.
    mutating func append(_ sample: ShardSample) throws -> Bool {
        if known.contains(sample.key) { return false }
        try Self.checkRoom(in: known, path)
        if let writer, writer.samples.count >= limits.count || writer.size + sample.size > limits.size,
            !writer.samples.isEmpty
        {
            try finishShard()
        }
        if writer == nil {
            writer = try ShardWriter(path, number: nextNumber)
            nextNumber += 1
        }
        try writer?.append(sample, time: Int(Date().timeIntervalSince1970))
        return known.insert(sample.key)
    }

    /// Waits until all samples are on the disk.
    mutating func commit() throws { try writer?.commit() }

    /// Gives the last shard its name.
    mutating func finishShard() throws {
        guard var writer else { return }
        try writer.finish()
        writer.close()
        self.writer = nil
    }

    /// Returns and forgets some lines that the shards have and the ledger has not; none at the end.
    mutating func takeUnlisted(_ limit: Int) throws -> [Data] {
        let some = lines.prefix(limit)
        // Lines of one shard follow each other.
        var opened: (number: Int, file: ShardFile)?
        defer { opened?.file.close() }
        var read: [Data] = []
        for line in some {
            if opened?.number != line.number {
                opened?.file.close()
                opened = nil
                opened = (line.number, try archive(line.number))
            }
            if let file = opened?.file { read.append(try file.read(line.member.size, at: line.member.offset)) }
        }
        lines = lines.dropFirst(some.count)
        return read
    }

    /// The archive of a shard, which may be unfinished.
    private func archive(_ number: Int) throws -> ShardFile {
        let partial = "\(path)/\(ShardNames.partial(number))"
        let isPartial = access(partial, F_OK) == 0
        return try ShardFile(isPartial ? partial : "\(path)/\(ShardNames.archive(number))", flags: O_RDONLY)
    }

    /// Releases the directory. A partial shard stays for the next run.
    mutating func close() {
        writer?.close()
        writer = nil
        manifest.close()
    }
}
