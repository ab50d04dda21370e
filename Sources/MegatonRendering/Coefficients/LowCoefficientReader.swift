internal import Foundation
internal import MegatonCore

/// Reads the lowest coefficients of baseline JPEGs, for images at a quarter or an eighth of their size.
///
/// Decoding Huffman codes is most of the work on such an image. libjpeg decodes all coefficients one by one. Here a
/// lookup has all of the first four that 12 bits contain, and others jump over the rest, of which only the number
/// matters. Written in Swift without unsafe pointers, as the data comes from strangers.
///
/// Only what usual encoders write, and only if it is whole: everything else is left to libjpeg, which knows what damage
/// is and repairs some of it.
///
/// Its buffers are reused. Used by one thread at a time.
struct LowCoefficientReader {
    /// Blocks of all components, without the edges of units.
    private(set) var output: [UInt8] = []
    private var data = EntropyData()
    private var cache = DecodingTablesCache()

    /// The part of ``output`` that a component has.
    struct Part {
        let start: Int
        /// Bytes of a row.
        let stride: Int
        let rows: Int
    }

    /// Reads all blocks of a file.
    ///
    /// - Returns: the parts of the components; nil if the file is not usual, not whole, or of another size or sampling.
    mutating func read<Form: BlockForm>(
        _ file: Data,
        of size: PixelSize,
        _ sampling: ChromaSampling,
        as form: Form.Type
    ) -> [Part]? {
        guard let header = BaselineHeader(file), header.width == size.width, header.height == size.height,
            header.components.count == sampling.planes, header.components[0].across == sampling.horizontal,
            header.components[0].down == sampling.vertical, let tables = cache.tables(for: header),
            data.read(file, from: header.scan, intervals: header.intervals)
        else { return nil }
        let (unitsAcross, unitsDown) = (header.unitsAcross, header.unitsDown)
        var (parts, blocks, length): ([Part], [CoefficientScan<Form>.Block], Int) = ([], [], 0)
        for (index, component) in header.components.enumerated() {
            let part = Part(
                start: length,
                stride: unitsAcross * component.across * Form.width,
                rows: unitsDown * component.down * Form.height
            )
            let table = header.quantization[component.quantization]
            let factors = LowCoefficients(mean: table[0], across: table[1], down: table[2], both: table[4])
            for down in 0..<component.down {
                for across in 0..<component.across {
                    blocks.append(
                        CoefficientScan<Form>.Block(
                            component: index,
                            factors: factors,
                            pair: tables.pairs[index],
                            start: length + down * Form.height * part.stride + across * Form.width,
                            stride: part.stride,
                            nextUnit: component.across * Form.width,
                            nextRow: component.down * Form.height * part.stride
                        )
                    )
                }
            }
            parts.append(part)
            length += part.stride * part.rows
        }
        // Not filled again: each byte is written.
        if output.count < length { output = [UInt8](repeating: 0, count: length) }
        let scan = CoefficientScan<Form>(
            tables: tables,
            blocks: blocks,
            unitsAcross: unitsAcross,
            units: unitsAcross * unitsDown,
            restartInterval: header.restartInterval
        )
        return scan.read(data, to: &output) ? parts : nil
    }

    /// Bytes of buffers that are kept for the next image.
    private static let keptBytes = 1 << 20

    /// Frees buffers that are larger than those of most images.
    mutating func trim() {
        if output.count > Self.keptBytes { output = [] }
        data.trim(to: Self.keptBytes)
    }
}
