package import Foundation

/// The stages of a render as separate calls on the calling thread, for benchmarks. Each stage uses planes or libvips,
/// as the engine would.
///
/// libvips runs all stages together, strip by strip, so a whole render may take less time than the sum of its stages.
package struct RenderStages: Sendable {
    /// The parsed header, and the plan made from it.
    package struct Header: Sendable {
        let plan: RenderPlan
    }

    /// The decoded image: as stored, perhaps at a fraction of its size.
    package struct DecodedImage {
        enum Samples {
            case pixels(VipsImage)
            case planes(PlanarImage)
        }

        let plan: RenderPlan
        let samples: Samples
    }

    /// The upright image at the rendition's size.
    package enum Result {
        case pixels(PlatformImage)
        /// Opaque to callers, because planes are internal to the library.
        case planes(Planes)

        package struct Planes {
            let image: PlanarImage
        }

        /// Size in pixels.
        var size: PixelSize {
            switch self {
            case .pixels(let image): image.size
            case .planes(let planes): planes.image.size
            }
        }
    }

    private let engine: any RenderEngine
    private let vips = VipsEngine()
    private let planes = PlanesEngine()
    private let rendition: Rendition
    private let limits = RenderLimits()

    /// - Throws: The errors of a pipeline for a rendition that it cannot make.
    package init(_ rendition: Rendition, engine: RenderEngineChoice = .auto) throws(ImageError) {
        try limits.check(rendition)
        self.rendition = rendition
        self.engine = engine.engine
    }

    /// Runs sniff, probe, limits and plan.
    package func header(_ data: Data) throws(ImageError) -> Header {
        Header(plan: try RenderPlan(probing: data, AssetType.supported.sniff(data), [rendition], engine, limits))
    }

    package func decode(_ data: Data, _ header: Header) throws(ImageError) -> DecodedImage {
        let plan = header.plan
        if plan.passes[0].usesPlanes, let image = planes.load(plan, data) {
            return DecodedImage(plan: plan, samples: .planes(image))
        }
        return DecodedImage(plan: plan, samples: .pixels(try vips.load(plan, data, deadline: deadline)))
    }

    /// Scales to the rendition's size, turns upright and converts to sRGB.
    package func resize(_ decoded: DecodedImage) throws(ImageError) -> Result {
        switch decoded.samples {
        case .pixels(let image): return .pixels(try vips.scale(image, decoded.plan, deadline: deadline))
        case .planes(let source):
            guard let scaled = planes.scale(source, decoded.plan) else { throw Self.failure }
            return .planes(Result.Planes(image: scaled))
        }
    }

    /// - Parameter format: For planes, only JPEG and WebP are supported.
    package func encode(_ result: Result, as format: Rendition.Format) throws(ImageError) -> Data {
        var rendition = rendition
        rendition.format = format
        switch result {
        case .pixels(let image):
            return try vips.encode(image, rendition, deadline)
        case .planes(let planes):
            guard format == .jpeg || format == .webp,
                let data = try self.planes.encode(planes.image, rendition, deadline)
            else { throw Self.failure }
            return data
        }
    }

    private var deadline: RenderDeadline { RenderDeadline(.now + limits.time) }

    private static var failure: ImageError {
        ImageError(
            .renderFailed,
            "the planes engine cannot make this rendition. Set Configuration.renderEngine to .vips."
        )
    }
}

/// The bare rendering of a job: source bytes in, a rendition's bytes out, on the calling thread. Benchmarks use it to
/// measure the overhead of the rest of the pipeline.
package struct RenderLoop: Sendable {
    private let engine: any RenderEngine
    private let rendition: Rendition
    private let limits = RenderLimits()

    /// - Throws: The errors of a pipeline for a rendition that it cannot make.
    package init(_ rendition: Rendition, engine: RenderEngineChoice = .auto) throws(ImageError) {
        try limits.check(rendition)
        self.rendition = rendition
        self.engine = engine.engine
    }

    /// Runs sniff, probe, limits, plan, and one decode for the rendition.
    ///
    /// - Throws: The errors of a pipeline for these bytes.
    package func render(_ data: Data) throws(ImageError) -> Data {
        let plan = try RenderPlan(probing: data, AssetType.supported.sniff(data), [rendition], engine, limits)
        let deadline = RenderDeadline(.now + limits.time)
        guard let image = try engine.execute(plan, data, deadline: deadline).first else {
            throw ImageError(.renderFailed, "the engine returned no image.")
        }
        return image.data
    }
}
