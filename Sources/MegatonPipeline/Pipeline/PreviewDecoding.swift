import Synchronization

/// The previews of one download, all of them by one decoder, as that remembers what it has shown.
final class PreviewDecoding: Sendable {
    private struct State {
        var decoder: (any ImageDecoding)?
        /// How many bytes there must be before it is asked for once more.
        var enough = 0
    }

    let gate = PreviewGate<ImageResponse>()
    private let state = Mutex(State())

    /// Nil where nothing could be shown so far. The picture itself is its to decode, too.
    var decoder: (any ImageDecoding)? { state.withLock { $0.decoder } }

    /// The decoder, as soon as there is something to show. Asked for within the gate.
    ///
    /// - Parameters:
    ///   - count: bytes so far.
    ///   - make: is asked again when twice as much has come, as it may have to look through all of it.
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
