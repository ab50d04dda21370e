import Synchronization

/// Which decoder gets which bytes: the one that was registered last and wants them; the pipeline's own if none does.
///
/// Each pipeline has its own, unlike Nuke's, which is the program's.
public final class ImageDecoderRegistry: Sendable {
    /// Makes a decoder for a picture, or nil if it wants no part of it. Asked once for each picture, on any thread; for
    /// an unfinished one as its bytes double, until there is a decoder, which then decodes the whole one too.
    public typealias Factory = @Sendable (ImageDecodingContext) -> (any ImageDecoding)?

    /// Stands for one registration.
    public struct RegistrationToken: Sendable, Hashable {
        fileprivate let id: Int
    }

    private struct State {
        var lastID = 0
        var factories: [(id: Int, make: Factory)] = []
        /// Asked last.
        var fallback: Factory?
    }

    private let state: Mutex<State>

    /// A registry whose last decoder is `ImageDecoders.Default`.
    ///
    /// - Parameters:
    ///   - limits: of the default decoder.
    ///   - types: what the default decoder decodes.
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

    /// - Parameter fallback: asked last.
    public init(fallback: @escaping Factory) { state = Mutex(State(fallback: fallback)) }

    /// Puts a decoder before all others.
    ///
    /// - Returns: what `unregister` takes; the registration stays where it is not used.
    @discardableResult
    public func register(_ make: @escaping Factory) -> RegistrationToken {
        state.withLock { state in
            state.lastID += 1
            state.factories.append((state.lastID, make))
            return RegistrationToken(id: state.lastID)
        }
    }

    /// Takes a registration back. Nothing happens the second time.
    public func unregister(_ token: RegistrationToken) {
        state.withLock { $0.factories.removeAll { $0.id == token.id } }
    }

    /// Takes all registrations back, the default decoder's too, as in Nuke: nothing is decoded until one is registered.
    public func clear() {
        state.withLock { state in
            state.factories = []
            state.fallback = nil
        }
    }

    /// The decoder for a picture; nil if nobody wants it.
    public func decoder(for context: ImageDecodingContext) -> (any ImageDecoding)? {
        // Asked without the lock: a closure may take its time, or register something.
        let (factories, fallback) = state.withLock { ($0.factories, $0.fallback) }
        for factory in factories.reversed() {
            if let decoder = factory.make(context) { return decoder }
        }
        return fallback?(context)
    }
}
