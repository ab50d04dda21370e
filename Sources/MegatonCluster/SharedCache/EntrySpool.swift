internal import Foundation
internal import MegatonPipeline
internal import NIOCore

/// Spool file of a large entry that is read from Redis: the bytes are written as they arrive, like those of large
/// downloads. Many jobs may have large originals while they wait to render, and no memory budget counts these until
/// then.
struct EntrySpool: Sendable {
    /// Size up to which an entry is held in memory, bytes; the same as
    /// `ImagePipeline.Configuration.maximumBodyInMemory`.
    static let threshold = 4 * 1024 * 1024

    /// Threads that write and verify files, for all caches of the process. They start with the first large entry, and
    /// block only on the disk.
    private static let threads = ThreadPool(name: "megaton-entry", count: 2)

    private let file: SpoolFile
    private var count = 0

    /// Creates the file; nil if that fails, or the task is cancelled.
    ///
    /// - Parameter directory: nil for the default one.
    init?(in directory: String?) async {
        // The caller continues without a file, or knows that it is cancelled.
        guard let file = try? await Self.threads.run({ try SpoolFile(in: directory) }) else { return nil }
        self.file = file
    }

    /// Appends chunks to the file.
    ///
    /// - Returns: false if they cannot be written, or the task is cancelled. Nothing may be appended afterwards.
    mutating func append(_ chunks: [ByteBuffer]) async -> Bool {
        let (file, start) = (file, count)
        // As in `init`.
        let end = try? await Self.threads.run { () throws -> Int in
            var offset = start
            for chunk in chunks {
                try file.write(Data(chunk.readableBytesView), at: offset)
                offset += chunk.readableBytes
            }
            return offset
        }
        guard let end else { return false }
        count = end
        return true
    }

    /// The entry, with its bytes mapped from the file.
    ///
    /// - Returns: nil if the bytes differ from those that were stored.
    /// - Throws: `SpoolFile.Fault` if they cannot be mapped; `CancellationError`.
    func entry(_ header: CacheEntry.Header) async throws -> CachedData? {
        let (file, count) = (file, count)
        return try await Self.threads.run { () throws -> CachedData? in
            let data = try file.bytes(count)
            defer { SpoolFile.releasePages(of: data) }
            return CacheEntry.entry(header, data: data)
        }
    }
}
