package import Foundation

/// The steps of a render by themselves, on the thread that calls, for those who measure them: by planes or by libvips, as the
/// engine would have it.
///
/// libvips runs through all of them strip by strip, so that it may take less time than their sum.
package struct RenderStages: Sendable {
    /// What the header told, and what follows from it.
    package struct Header: Sendable {
        let plan: RenderPlan
    }

    /// What the codec gave: as stored, perhaps at a fraction of its size.
    package struct Picture {
        enum Samples {
            case pixels(VipsImage)
            case planes(PlanarPicture)
        }

        let plan: RenderPlan
        let samples: Samples
    }

    /// Upright, and of the rendition's size.
    package enum Result {
        case pixels(PlatformImage)
        /// Internal to the library, as planes are.
        case planes(Planes)

        package struct Planes {
            let picture: PlanarPicture
        }

        /// Pixels.
        package var size: PixelSize {
            switch self {
            case .pixels(let image): image.size
            case .planes(let planes): planes.picture.size
            }
        }
    }

    private let engine: any RenderEngine
    private let vips = VipsEngine()
    private let planes = PlanesEngine()
    private let rendition: Rendition
    private let limits = RenderLimits()

    /// - Throws: what a pipeline says of a rendition that it cannot make.
    package init(_ rendition: Rendition, engine: RenderEngineChoice = .auto) throws(ImagePipeline.Error) {
        try limits.check(rendition)
        self.rendition = rendition
        self.engine = engine.engine
    }

    /// Sniff, probe, limits and plan.
    package func header(_ data: Data) throws(ImagePipeline.Error) -> Header {
        Header(plan: try RenderPlan(probing: data, AssetType.supported.sniff(data), [rendition], engine, limits))
    }

    package func decode(_ data: Data, _ header: Header) throws(ImagePipeline.Error) -> Picture {
        let plan = header.plan
        if plan.passes[0].usesPlanes, let picture = planes.load(plan, data) {
            return Picture(plan: plan, samples: .planes(picture))
        }
        return Picture(plan: plan, samples: .pixels(try vips.load(plan, data, deadline: deadline)))
    }

    /// The rest of the way to the rendition's size, turned upright and in sRGB.
    package func resize(_ picture: Picture) throws(ImagePipeline.Error) -> Result {
        switch picture.samples {
        case .pixels(let image): return .pixels(try vips.scale(image, picture.plan, deadline: deadline))
        case .planes(let source):
            guard let scaled = planes.scale(source, picture.plan) else { throw Self.failure }
            return .planes(Result.Planes(picture: scaled))
        }
    }

    /// - Parameter format: what of planes libvips alone writes is refused.
    package func encode(_ result: Result, as format: Rendition.Format) throws(ImagePipeline.Error) -> Data {
        var rendition = rendition
        rendition.format = format
        switch result {
        case .pixels(let image):
            return try vips.encode(image, rendition.encoding, rendition.background, deadline)
        case .planes(let planes):
            guard format == .jpeg || format == .webp,
                let data = self.planes.encode(planes.picture, rendition.encoding, deadline)
            else { throw Self.failure }
            return data
        }
    }

    private var deadline: RenderDeadline { RenderDeadline(.now + limits.time) }

    private static var failure: ImagePipeline.Error {
        ImagePipeline.Error(.renderFailed, "planes cannot be made into that: Configuration.renderEngine .vips can.")
    }
}
