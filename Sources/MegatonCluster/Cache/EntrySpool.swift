internal import Foundation
internal import MegatonPipeline
internal import NIOCore

/// A large entry on its way out of Redis: its bytes go to a temporary file as they come, as those of large downloads
/// do. Many jobs may have large originals and wait for their turn to render, and no budget counts these until then.
struct EntrySpool: Sendable {
    /// Smaller entries are held in memory, bytes: as `ImagePipeline.Configuration.maximumBodyInMemory`.
    static let threshold = 4 * 1024 * 1024

    /// Threads that write files and verify what is in them, for all caches of the process: they begin with the first
    /// large entry, and wait for nothing but the disk.
    private static let threads = ThreadPool(name: "megaton-entry", count: 2)

    private let file: SpoolFile
    private var count = 0

    /// Nil if no file can be made, or the task is cancelled.
    ///
    /// - Parameter directory: nil for the usual one.
    init?(in directory: String?) async {
        // The caller goes on without a file, or knows that it is cancelled.
        guard let file = try? await Self.threads.run({ try SpoolFile(in: directory) }) else { return nil }
        self.file = file
    }

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

    /// The entry, whose bytes are mapped.
    ///
    /// - Returns: nil if the bytes are not those that were stored.
    /// - Throws: `SpoolFile.Fault` if they cannot be mapped; `CancellationError`.
    func entry(_ header: CacheEntry.Header) async throws -> CachedData? {
        let (file, count) = (file, count)
        return try await Self.threads.run { () throws -> CachedData? in
            let data = try file.bytes(count)
            defer { SpoolFile.releasePages(of: data) }
            return CacheEntry.entry(header, data)
        }
    }
}
