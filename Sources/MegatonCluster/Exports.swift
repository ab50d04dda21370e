// `Job` and `Worker.Configuration` name types of the pipeline, such as `Rendition`.
@_exported public import MegatonPipeline
