import Foundation
import MegatonPipeline

/// The file with one JSON line for each job, in the order in which they ended.
///
/// Lines are written whole, a block of them at a time, so that the file is readable however the run ends.
final class Ledger: Sendable {
    /// Nil where the lines go nowhere: who waits for a batch needs its outcomes, not always a file of them.
    let path: String?
    private let handle: FileHandle?
    private let thread = ThreadPool(name: "megaton-ledger", count: 1)

    /// - Throws: `Failure` where the file cannot be made.
    init(_ path: String?) throws {
        self.path = path
        guard let path else {
            handle = nil
            return
        }
        let directory = (path as NSString).deletingLastPathComponent
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw Failure.output("the directory \(directory) cannot be made: \(error.localizedDescription)")
        }
        // A mistyped option must not cost a picture: what is replaced is a ledger, or empty.
        if let old = FileHandle(forReadingAtPath: path) {
            // What cannot be read is found by who opens it for writing, below.
            let first = try? old.read(upToCount: 1)
            try? old.close()
            if let first, !first.isEmpty, first != Data("{".utf8) {
                throw Failure.usage(
                    "\(path) is there and no ledger; it is not overwritten. Name another file with --ledger."
                )
            }
        }
        guard FileManager.default.createFile(atPath: path, contents: nil),
            let handle = FileHandle(forWritingAtPath: path)
        else {
            throw Failure.output("the ledger \(path) cannot be written: \(String(cString: strerror(errno))).")
        }
        self.handle = handle
    }

    /// - Throws: `Failure` where the disk is full, say.
    func append(_ lines: [Data]) async throws {
        guard let path, let handle else { return }
        var block = Data()
        for line in lines {
            block.append(line)
            block.append(10)
        }
        do {
            try await thread.run { [block] in try handle.write(contentsOf: block) }
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            throw Failure.output("the ledger \(path) cannot be written: \(error.localizedDescription)")
        }
    }

    func close() {
        thread.stop()
        // Everything was written by `append`, which told of what failed.
        try? handle?.close()
    }
}
