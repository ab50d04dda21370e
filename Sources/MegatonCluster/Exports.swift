// `Job` and `Worker.Configuration` name types of the pipeline, such as `Rendition`.
@_exported public import MegatonPipeline

#if MEGATON_SANITIZE
    // As `Synchronization.Mutex`, for sanitizers.
    typealias Mutex = MegatonCore.Mutex
#endif
