import Foundation
import MegatonCluster
import MegatonCommandLine

/// Writes one archive: samples under a hidden name, and the final name when it is whole.
///
/// Its calls block.
struct ShardWriter {
    private let directory: String
    private let number: Int
    private let file: ShardFile
    private(set) var samples: [ShardIndex.Sample]
    /// Position behind the last whole sample.
    private(set) var size: Int
    private var isSynced = true

    /// Begins an archive, or continues a partial one behind its last whole sample.
    ///
    /// - Parameter isStopped: as that of ``ShardScan``.
    init(_ directory: String, number: Int, isStopped: () -> Bool = { false }) throws {
        self.directory = directory
        self.number = number
        file = try ShardFile("\(directory)/\(ShardNames.partial(number))")
        do {
            let scan = try ShardScan(file, isStopped: isStopped)
            try file.truncate(to: scan.end)
            (samples, size) = (scan.samples, scan.end)
        } catch {
            file.close()
            throw error
        }
        isSynced = false
    }

    /// Appends a sample. If that fails, the archive ends with its last whole sample.
    mutating func append(_ sample: ShardSample, time: Int) throws(CLIError) {
        var position = size
        var members: [ShardIndex.Member] = []
        do throws(CLIError) {
            for member in sample.members {
                let header = TarHeader(name: member.name, size: member.data.count).encoded(time: time)
                try file.write(header, at: position)
                position += header.count
                try file.write(member.data, at: position)
                members.append(
                    .init(
                        name: member.name,
                        offset: position,
                        size: member.data.count,
                        sha256: Checksum.sha256(member.data)
                    )
                )
                let padding = TarHeader.padded(member.data.count) - member.data.count
                try file.write(Data(count: padding), at: position + member.data.count)
                position += member.data.count + padding
            }
        } catch {
            // If that fails too, the next run finds the torn sample and removes it.
            try? file.truncate(to: size)
            throw error
        }
        samples.append(ShardIndex.Sample(id: sample.id, key: sample.key, members: members))
        (size, isSynced) = (position, false)
    }

    /// Waits until all samples are on the disk.
    mutating func commit() throws(CLIError) {
        if isSynced { return }
        try file.sync()
        isSynced = true
    }

    /// Ends the archive and gives it its name, and then writes its index. An archive without samples is removed.
    mutating func finish() throws {
        let partial = file.path
        guard !samples.isEmpty else {
            unlink(partial)
            return
        }
        try file.write(Data(count: ShardScan.endBlocks * TarHeader.block), at: size)
        try file.sync()
        // One that an archive of this number has left, and that a crash would leave beside the new one.
        unlink("\(directory)/\(ShardNames.index(number))")
        try ShardFile.rename(partial, to: "\(directory)/\(ShardNames.archive(number))")
        try Self.write(samples, number: number, in: directory)
    }

    func close() { file.close() }

    /// Writes the index of an archive.
    static func write(_ samples: [ShardIndex.Sample], number: Int, in directory: String) throws {
        let index = ShardIndex(shard: ShardNames.archive(number), samples: samples)
        let file = try ShardFile("\(directory)/\(ShardNames.partialIndex(number))", flags: O_RDWR | O_CREAT | O_TRUNC)
        defer { file.close() }
        try file.write(try index.json(), at: 0)
        try file.sync()
        try ShardFile.rename(file.path, to: "\(directory)/\(ShardNames.index(number))")
        let folder = try ShardFile(directory, flags: O_RDONLY | O_DIRECTORY)
        defer { folder.close() }
        try folder.sync()
    }
}
