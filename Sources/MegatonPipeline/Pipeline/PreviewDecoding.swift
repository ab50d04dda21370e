import Synchronization

/// Previews of one download, all by the same decoder, as it remembers which parts it has shown.
final class PreviewDecoding: Sendable {
    private struct State {
        var decoder: (any ImageDecoding)?
        /// Number of bytes that must arrive before the decoder is requested again.
        var enough = 0
    }

    let gate = PreviewGate<ImageResponse>()
    private let state = Mutex(State())

    /// Nil if there has been no preview so far. The image itself is decoded by it too.
    var decoder: (any ImageDecoding)? { state.withLock { $0.decoder } }

    /// The decoder, as soon as there is something to show. Called within the gate.
    ///
    /// - Parameters:
    ///   - count: bytes received so far.
    ///   - make: called again only when that number has doubled, as it may have to scan all bytes.
    func decoder(for count: Int, _ make: () -> (any ImageDecoding)?) -> (any ImageDecoding)? {
        if let decoder { return decoder }
        let mayAsk = state.withLock { state in
            if count < state.enough { return false }
            state.enough = count * 2
            return true
        }
        guard mayAsk, let made = make() else { return nil }
        state.withLock { $0.decoder = made }
        return made
    }
}
