internal import Foundation
package import Logging
import Synchronization

/// Storage for bodies while they arrive and until they are rendered: small ones in memory, large ones in files.
package struct BodySpool: Sendable {
    /// Size above which a body is in a file, bytes.
    package var threshold = Int.max
    /// Directory of the files; nil for the default of `SpoolFile`.
    var directory: String?
    /// Limit for bodies in memory, which small bodies share.
    var memory: BodyMemory?
    var logger: Logger?
    /// Creates a file in place of one in `directory`, to test full disks.
    var open: (@Sendable () -> SpoolFile)?

    package init(
        threshold: Int = .max,
        directory: String? = nil,
        memory: BodyMemory? = nil,
        logger: Logger? = nil,
        open: (@Sendable () -> SpoolFile)? = nil
    ) {
        self.threshold = threshold
        self.directory = directory
        self.memory = memory
        self.logger = logger
        self.open = open
    }

    /// A copy of the bytes in a file, if they exceed the threshold; otherwise, or if that fails, the bytes themselves.
    func spooled(_ data: Data) -> Data {
        guard data.count > threshold, let file = try? SpoolFile(in: directory) else { return data }
        do throws(SpoolFile.Fault) {
            try file.write(data, at: 0)
            return try file.bytes(data.count)
        } catch {
            return data
        }
    }

    /// Creates a file for a large body; nil if none can be created, which is logged once.
    ///
    /// - Throws: `.diskFull`.
    package func makeFile() throws(ImageError) -> SpoolFile? {
        if threshold == .max { return nil }
        if let open { return open() }
        do throws(SpoolFile.Fault) {
            return try SpoolFile(in: directory)
        } catch {
            if error.isFull { throw Self.full(error) }
            let isFirst = Self.hasWarned.withLock { hasWarned in
                defer { hasWarned = true }
                return !hasWarned
            }
            if isFirst {
                logger?.warning(
                    "large bodies are held in memory: no temporary file can be made; set TMPDIR",
                    metadata: ["directory": "\(error.reason)"]
                )
            }
            return nil
        }
    }

    private static let hasWarned = Mutex(false)

    package static func full(_ fault: SpoolFile.Fault) -> ImageError {
        ImageError(
            fault.isFull ? .diskFull : .outputFailed,
            "A body cannot be kept in a temporary file in \(fault.reason). Make room there, or set TMPDIR to another "
                + "disk.",
            isRetryable: true
        )
    }
}
