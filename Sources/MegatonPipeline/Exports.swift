// The public API of these modules is a part of this one: users import MegatonPipeline alone.
@_exported public import MegatonCore
@_exported public import MegatonHTTP
@_exported public import MegatonRendering

#if MEGATON_SANITIZE
    // As `Synchronization.Mutex`, for sanitizers.
    typealias Mutex = MegatonCore.Mutex
#endif
