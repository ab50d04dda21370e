package import Foundation

/// The steps of libvips' rendering by themselves, on the thread that calls, for those who measure them.
///
/// A render runs through all of them strip by strip, so that it may take less time than their sum.
package struct RenderStages: Sendable {
    /// What the header told, and what follows from it.
    package struct Header: Sendable {
        let plan: RenderPlan
    }

    /// What the codec gave: as stored, perhaps at a fraction of its size.
    package struct Picture {
        let plan: RenderPlan
        let image: VipsImage
    }

    private let engine = VipsEngine()
    private let rendition: Rendition
    private let limits = RenderLimits()

    /// - Throws: what a pipeline says of a rendition that it cannot make.
    package init(_ rendition: Rendition) throws(ImagePipeline.Error) {
        try limits.check(rendition)
        self.rendition = rendition
    }

    /// Sniff, probe, limits and plan.
    package func header(_ data: Data) throws(ImagePipeline.Error) -> Header {
        Header(plan: try RenderPlan(probing: data, AssetType.supported.sniff(data), [rendition], engine, limits))
    }

    package func decode(_ data: Data, _ header: Header) throws(ImagePipeline.Error) -> Picture {
        Picture(plan: header.plan, image: try engine.load(header.plan, data, deadline: deadline))
    }

    /// The rest of the way to the rendition's size, turned upright and in sRGB.
    package func resize(_ picture: Picture) throws(ImagePipeline.Error) -> PlatformImage {
        try engine.scale(picture.image, picture.plan, deadline: deadline)
    }

    package func encode(
        _ image: PlatformImage,
        as format: Rendition.Format
    ) throws(ImagePipeline.Error) -> Data {
        var rendition = rendition
        rendition.format = format
        return try engine.encode(image, rendition.encoding, rendition.background, deadline)
    }

    private var deadline: RenderDeadline { RenderDeadline(.now + limits.time) }
}
