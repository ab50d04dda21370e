import Synchronization

/// Chooses the decoder for an image: the last registered one that accepts it, or the default decoder.
///
/// Unlike in Nuke, each pipeline has its own registry.
public final class ImageDecoderRegistry: Sendable {
    /// Creates a decoder for an image, or returns nil to decline it. Called once for each image, on any thread. For a
    /// partially downloaded image it is called again each time the bytes double, until it returns a decoder; that
    /// decoder also decodes the complete image.
    public typealias Factory = @Sendable (ImageDecodingContext) -> (any ImageDecoding)?

    /// Identifies one registration.
    public struct RegistrationToken: Sendable, Hashable {
        fileprivate let id: Int
    }

    private struct State {
        var lastID = 0
        var factories: [(id: Int, make: Factory)] = []
        /// The factory that is called if all others decline.
        var fallback: Factory?
    }

    private let state: Mutex<State>

    /// A registry with `ImageDecoders.Default` as its fallback.
    ///
    /// - Parameters:
    ///   - limits: Limits of the default decoder.
    ///   - types: Types that the default decoder decodes.
    public convenience init(limits: RenderLimits = RenderLimits(), types: Set<AssetType> = AssetType.supported) {
        self.init { context in
            ImageDecoders.Default(
                limits: limits,
                types: types,
                thumbnail: context.request.thumbnail,
                previewPolicy: context.previewPolicy
            )
        }
    }

    /// - Parameter fallback: The factory that is called if all others decline.
    public init(fallback: @escaping Factory) { state = Mutex(State(fallback: fallback)) }

    /// Registers a decoder ahead of all others.
    ///
    /// - Returns: A token for `unregister`; the registration is permanent if it is discarded.
    @discardableResult
    public func register(_ make: @escaping Factory) -> RegistrationToken {
        state.withLock { state in
            state.lastID += 1
            state.factories.append((state.lastID, make))
            return RegistrationToken(id: state.lastID)
        }
    }

    /// Removes a registration. Does nothing if it was removed before.
    public func unregister(_ token: RegistrationToken) {
        state.withLock { $0.factories.removeAll { $0.id == token.id } }
    }

    /// Removes all registrations including the default decoder, as in Nuke: nothing is decoded until a decoder is
    /// registered.
    public func clear() {
        state.withLock { state in
            state.factories = []
            state.fallback = nil
        }
    }

    /// The decoder for an image; nil if all factories decline it.
    public func decoder(for context: ImageDecodingContext) -> (any ImageDecoding)? {
        // Factories run outside of the lock: they may be slow, or register decoders.
        let (factories, fallback) = state.withLock { ($0.factories, $0.fallback) }
        for factory in factories.reversed() {
            if let decoder = factory.make(context) { return decoder }
        }
        return fallback?(context)
    }
}
