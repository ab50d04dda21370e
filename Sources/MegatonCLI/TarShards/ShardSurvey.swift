import Foundation
import MegatonCommandLine

/// The content of a directory of shards as a run would find it, read without a lock and without a change.
///
/// Its initializer blocks.
struct ShardSurvey: Sendable {
    /// The samples of all shards.
    let known = KnownSamples()
    let limits: TarShards.Limits
    /// Bytes and samples of the partial shard that a run would continue; nil without one.
    private(set) var partial: (size: Int, count: Int)?

    /// Reads a directory, which may be missing.
    ///
    /// - Parameter renditions: digest of the renditions: shards of others are refused.
    /// - Throws: `CLIError` if a run could not use the directory.
    init(_ path: String, limits: TarShards.Limits, renditions: String) throws {
        self.limits = limits
        guard access(path, F_OK) == 0 || errno != ENOENT else { return }
        let names = Set(try TarShards.names(in: path))
        if names.contains(ShardNames.manifest) {
            let manifest = try ShardFile("\(path)/\(ShardNames.manifest)", flags: O_RDONLY)
            defer { manifest.close() }
            _ = try TarShards.isNew(manifest, renditions)
        }
        for (number, isPartial) in names.compactMap(ShardNames.number).sorted(by: { $0.number < $1.number }) {
            let samples =
                try isPartial
                ? takePartial("\(path)/\(ShardNames.partial(number))")
                : TarShards.samples(of: number, in: path, names).samples
            for sample in samples {
                try TarShards.checkRoom(in: known, path)
                _ = known.insert(sample.key)
            }
        }
    }

    /// The whole samples of a partial shard. Of several, a run ends all but the last.
    private mutating func takePartial(_ path: String) throws -> [ShardIndex.Sample] {
        let file = try ShardFile(path, flags: O_RDONLY)
        defer { file.close() }
        let scan = try ShardScan(file)
        partial = (scan.end, scan.samples.count)
        return scan.samples
    }
}
