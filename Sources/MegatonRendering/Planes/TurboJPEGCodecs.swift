import Synchronization

/// A pool of idle codecs. Grows to the largest number of threads that have used one at the same time.
final class TurboJPEGCodecs: Sendable {
    private let idle = Mutex<[TurboJPEGCodec]>([])

    /// - Returns: The body's result; nil if there is no memory for a codec.
    func withCodec<Value, Failure: Error>(_ body: (TurboJPEGCodec) throws(Failure) -> Value?) throws(Failure) -> Value?
    {
        guard let codec = idle.withLock({ $0.popLast() }) ?? TurboJPEGCodec() else { return nil }
        defer { idle.withLock { $0.append(codec) } }
        return try body(codec)
    }
}
