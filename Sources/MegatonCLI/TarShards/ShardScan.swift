import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// The whole samples at the beginning of an archive.
///
/// A sample is whole if its members follow each other, the last one is its outcome, and all of them have the sizes and
/// SHA-256 that the outcome names: after a power cut the file may have its length, and zeros in it.
struct ShardScan {
    private(set) var samples: [ShardIndex.Sample] = []
    /// Position behind the last whole sample.
    private(set) var end = 0
    /// Whether anything but the end of an archive follows there.
    private(set) var isTorn = false

    /// Maximum number of bytes of a member: more than the cache stores of a rendition.
    static let largestMember = 256 * 1024 * 1024
    /// Blocks of zeros at the end of an archive.
    static let endBlocks = 2

    /// Reads an archive, of which the whole content is read.
    ///
    /// - Parameter isStopped: asked before each member, as an archive may have terabytes.
    /// - Throws: `CLIError` if the file cannot be read, or 130 if the scan was stopped.
    init(_ file: ShardFile, isStopped: () -> Bool = { false }) throws {
        let size = try file.size()
        var position = 0
        var open: [ShardIndex.Member] = []
        while true {
            if isStopped() { throw Self.interrupted(file.path) }
            let header = try TarHeader.next { count in
                let data = try file.read(count, at: position)
                position += data.count
                return data
            }
            guard let header, header.type == TarHeader.file, header.size <= Self.largestMember,
                position + TarHeader.padded(header.size) <= size
            else { break }
            let data = try file.read(header.size, at: position)
            let sha256 = Checksum.sha256(data)
            open.append(.init(name: header.name, offset: position, size: header.size, sha256: sha256))
            position += TarHeader.padded(header.size)
            guard header.name.hasSuffix(".json") else { continue }
            guard let sample = Self.sample(open, line: data) else { break }
            samples.append(sample)
            open = []
            end = position
        }
        let rest = try file.read(min(size - end, Self.endBlocks * TarHeader.block), at: end)
        isTorn = rest.contains { $0 != 0 } || rest.count < Self.endBlocks * TarHeader.block
    }

    /// The error after a signal.
    ///
    /// - Parameter path: that is being read.
    static func interrupted(_ path: String) -> CLIError {
        CLIError(
            code: 130,
            message: "interrupted while \(path) was read. Nothing was begun; the same command again reads it anew."
        )
    }

    /// The sample of some members; nil if they are not those of the outcome.
    private static func sample(_ members: [ShardIndex.Member], line: Data) -> ShardIndex.Sample? {
        guard let outcome = try? JobOutcome(json: line), let id = outcome.id else {
            return nil
        }
        let key = ShardSample.key(of: id)
        let images = members.dropLast()
        guard members.last?.name == ShardSample.lineName(of: key),
            images.map(\.name) == ShardSample.names(of: outcome),
            images.map(\.sha256) == outcome.outputs.map(\.sha256)
        else { return nil }
        return ShardIndex.Sample(id: id, key: key, members: members)
    }
}
