// Signatures of this module use types of MegatonCore, so that importers need them too.
@_exported public import MegatonCore

#if MEGATON_SANITIZE
    // As `Synchronization.Mutex`, for sanitizers.
    typealias Mutex = MegatonCore.Mutex
#endif
