/// The decoders that come with the pipeline.
public enum ImageDecoders {}
