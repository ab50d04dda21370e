internal import Foundation

/// Bytes of one body as they arrive, in memory or in a file. A copy may be read, but must not be appended to.
struct BodyBuffer: Sendable {
    private enum Storage {
        case empty
        /// A single chunk, which is not copied.
        case whole(Data)
        case memory(BodyBlock)
        case file(SpoolFile)
    }

    private let spool: BodySpool
    private var storage = Storage.empty
    private(set) var count = 0

    /// Initial memory for a body of unknown length, bytes.
    private static let firstCapacity = 256 << 10

    init(_ spool: BodySpool) { self.spool = spool }

    /// - Parameter total: size of the whole body in bytes, if known.
    /// - Throws: `.diskFull`; `.outputFailed` if a file cannot be written; `.tooCostly` if there is no memory.
    mutating func append(_ chunk: Data, total: Int?) throws(ImageError) {
        if chunk.isEmpty { return }
        if case .empty = storage {
            if chunk.count == total || chunk.count > spool.threshold {
                (storage, count) = (.whole(chunk), chunk.count)
                return
            }
            try begin(max(total ?? min(Self.firstCapacity, spool.threshold), chunk.count))
        }
        try makeRoom(for: count + chunk.count)
        do throws(SpoolFile.Fault) {
            switch storage {
            case .memory(let block): chunk.withUnsafeBytes { block.write($0, at: count) }
            case .file(let file): try file.write(chunk, at: count)
            case .empty, .whole: break
            }
        } catch {
            throw BodySpool.full(error)
        }
        count += chunk.count
    }

    private mutating func begin(_ capacity: Int) throws(ImageError) {
        if capacity <= spool.threshold, let block = BodyBlock(capacity: capacity, spool.memory) {
            storage = .memory(block)
        } else {
            try move(capacity)
        }
    }

    private mutating func makeRoom(for bytes: Int) throws(ImageError) {
        switch storage {
        case .memory(let block):
            if bytes <= block.capacity { return }
            // Memory is uncounted only if no file can be created: there is no threshold then.
            let threshold = block.isCounted ? spool.threshold : .max
            let capacity = max(bytes, min(block.capacity * 2, threshold))
            if capacity <= threshold, block.grow(to: capacity) { return }
            try move(bytes)
        case .whole: try move(bytes)
        case .file, .empty: break
        }
    }

    /// Moves the bytes to a file, or to uncounted memory if no file can be created.
    private mutating func move(_ capacity: Int) throws(ImageError) {
        let data = snapshot
        if let file = try spool.makeFile() {
            do throws(SpoolFile.Fault) {
                try file.write(data, at: 0)
            } catch {
                throw BodySpool.full(error)
            }
            storage = .file(file)
        } else if let block = BodyBlock(capacity: capacity, nil) {
            data.withUnsafeBytes { block.write($0, at: 0) }
            storage = .memory(block)
        } else {
            throw ImageError(.tooCostly, "There is no memory for \(capacity) bytes.", isRetryable: true)
        }
    }

    /// The bytes so far, for a caller that keeps them while more arrive. Empty if a file cannot be mapped.
    var snapshot: Data { (try? copied(count)) ?? Data() }

    /// Calls a closure with the bytes so far, without a copy; with none if a file cannot be mapped.
    func withBytes<Value>(_ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        if case .memory(let block) = storage { return withExtendedLifetime(block) { body(block.bytes(count)) } }
        return snapshot.withUnsafeBytes(body)
    }

    /// A copy of the first bytes, for messages.
    func prefix(_ count: Int) -> Data { Data(snapshot.prefix(count)) }

    /// The bytes, without a copy. Nothing may be appended afterwards.
    ///
    /// - Throws: `.outputFailed` if a file cannot be mapped.
    func data() throws(ImageError) -> Data {
        if case .memory(let block) = storage { return block.data(count) }
        do throws(SpoolFile.Fault) { return try copied(count) } catch { throw BodySpool.full(error) }
    }

    private func copied(_ count: Int) throws(SpoolFile.Fault) -> Data {
        switch storage {
        case .empty: Data()
        case .whole(let data): data
        case .memory(let block): Data(block.bytes(count))
        case .file(let file): try file.bytes(count)
        }
    }
}
