import Synchronization

/// Sees to it that a picture is kept once, however many have asked for it.
final class ImageKeeper: Sendable {
    private let state = Mutex(false)

    /// True for the first one who asks.
    func isFirst() -> Bool {
        state.withLock { wasAsked in
            defer { wasAsked = true }
            return !wasAsked
        }
    }
}

extension ImageResponse {
    /// The same, to be kept by those who asked for it.
    func toKeep() -> ImageResponse {
        var response = self
        response.keeper = ImageKeeper()
        return response
    }
}
