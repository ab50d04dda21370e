import Synchronization

/// Codecs that nobody uses at present: as many as there were threads at a time.
final class PlaneCodecs: Sendable {
    private let idle = Mutex<[PlaneCodec]>([])

    /// - Returns: nil where there is no memory for a codec; otherwise what the body returns.
    func withCodec<Value, Failure: Error>(_ body: (PlaneCodec) throws(Failure) -> Value?) throws(Failure) -> Value? {
        guard let codec = idle.withLock({ $0.popLast() }) ?? PlaneCodec() else { return nil }
        defer { idle.withLock { $0.append(codec) } }
        return try body(codec)
    }
}
