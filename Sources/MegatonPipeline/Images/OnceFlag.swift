import Synchronization

/// Ensures that an image is stored once, however many tasks have requested it.
final class OnceFlag: Sendable {
    private let state = Mutex(false)

    /// True on the first call.
    func isFirst() -> Bool {
        state.withLock { wasAsked in
            defer { wasAsked = true }
            return !wasAsked
        }
    }
}

extension ImageResponse {
    /// The same response, to be stored once for the tasks that requested it.
    func storedOnce() -> ImageResponse {
        var response = self
        response.storeFlag = OnceFlag()
        return response
    }
}
