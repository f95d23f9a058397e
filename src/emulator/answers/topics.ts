/** Words that speak for a topic, in several languages; `*` stands for any ending, `_` for a space. */
interface Topic {
  /** A label, or what the prompt says about it, that means this topic. */
  readonly label: RegExp;
  readonly words: RegExp;
  /** What each word counts. */
  readonly weight: number;
}

const TOPICS: readonly Topic[] = [
  topic(
    /bill|payment|invoice|accounting|rechnung/i,
    'invoice* charge* bill billed payment* paid paying pay card subscription* chargeback vat voucher discount ' +
      'instalments gift_card currency rechnung* mahnung mehrwertsteuer überwiesen zahlung* ' +
      'gutschein factur* fattura* carte_cadeau codice_regalo réduction creditnota fatura* frete',
  ),
  topic(
    /refund|return|exchange|retour/i,
    'refund* return* exchange* swap* money_back send_back sent_it_back tauschen ' +
      'umtausch* rückgabe zurück* rembours* renvoy* échang* devol* devuelv* reembols* reso rimbors* rispedi* ' +
      'retour* terug geretourneerd* zwrot iade* استرداد 返品',
  ),
  topic(
    /ship|deliver|logist|\border|parcel|versand|liefer/i,
    'ship* deliver* parcel* package* packed packag* arriv* courier* driver tracking late missing pick-up ' +
      'still_waiting never_came never_comes came_with came_without fehlt ' +
      'fehlen liefer* nachliefern paket* versand* angekommen livr* livraison colis expédi* envío* envia* llegó ' +
      'llegado paquete* consegn* spedi* pacco mancava entreg* encomenda envio bezorg* pakket* geleverd kargo ' +
      'dostaw* gönder* 届 到',
  ),
  topic(
    /tech|bug|software|login|access/i,
    'error* crash* bug bugs login log_in password install* app screen website reset firmware update fehler*',
  ),
  topic(
    /quality|defect|product|damage|made|fault|mangel/i,
    'quality broke broken break* torn hole holes material* fabric defect* damage* faulty fault leak* crack* ' +
      'rust* died dead stopped works working work worked lasts lasted last battery sound seam zip zipper sturdy ' +
      "solid flimsy doesn't_work burn* burned ripped bent kinks spark* sparking warped silent smells smell loud " +
      'noisy squeak* clogs drip* dry dries wet warm bright sharp cuts boils charges kaputt defekt* undicht* riss ' +
      'raucht qualität hält leise laut bruit* cassé* fuit panne erreur décolle solide calidad roto* rota* añicos ' +
      'batería ruido suena funziona* rotto rotta arrugginit* qualità qualidade rasgou* rompeu deixou_de bateria ' +
      'som funciona* kapot lek kwaliteit iskrzy* cieknie 壊 音 مكسورة البطارية الصوت',
  ),
  topic(
    /size|sizing|\bfit|dimension|weight|größe|taille|talla/i,
    'size* sizing fit fits tight loose small* large* big huge bulky short long longer length petite tiny wide ' +
      'narrow weighs weight heavy heavier light lightweight cm inches gap größe* klein groß zu_kurz schwer leicht ' +
      'lang taille petit* grand* lourd* léger talla pequeñ* grande* pesa ligero misura piccol* pesant* leggero ' +
      'tamanho pequen* maat klein groot zwaar licht',
  ),
  topic(
    /price|cost|value|money|preis|prix|precio/i,
    'price* expensive cheap* cost* worth discount sale bargain money penny pay paid subscription ' +
      'get_what_you_pay_for preis* geld teuer billig günstig prix cher chère euros precio* caro cara cuesta dinero ' +
      'prezzo costa preço barato prijs duur fiyat* السعر',
  ),
  topic(
    /service|support|staff|agent/i,
    'rude helpful staff agent support waiter service polite helpdesk kundendienst antwort answered answers reply ' +
      'wrote_to replied refund* returned replacement exchange call_me warranty friendly service_client ' +
      'remboursement atención assistenza rispond* atendimento klantenservice reklamacja',
  ),
  topic(
    /change|cancel|modif|amend|änder/i,
    'change* cancel* instead combine address different_address wrong_address ändern ' +
      'stornier* modifier annul* cambiar anular modificar cancelar wijzig* إلغاء adresse',
  ),
  topic(
    /\baccount|profile|privacy|password/i,
    'password log_in logged_out login unsubscribe* newsletters delete_all_my_data my_data ' +
      'an_account_with reset_mail passwort mot_de_passe contraseña',
  ),
  topic(
    /complain/i,
    'terrible unacceptable disappoint* complain* worst awful angry still_no still_not lawyer',
  ),
  topic(
    /praise|compliment|thank|lob\b/i,
    'thank thanks great excellent love loved wonderful lovely praise raise better_than_new compliment* ' +
      'all_good happy danke wunderbar merci_beaucoup',
    0.6,
  ),
  topic(
    /question|inquir|enquir|request|frage/i,
    'how when whether which does_it is_there do_you do_u can_i can_the can_you could_you would_like is_it what_is ' +
      'kann ist_das est-ce puis-je existe hay kan_ik vorrei volevo posso mogę czy',
    0.6,
  ),
  topic(
    /spam|junk|phish/i,
    'free winner prize click_here claim urgent_offer lottery 100% act_now guaranteed',
  ),
  topic(/urgent|high|critical/i, 'urgent asap immediately emergency at_once dringend today'),
  topic(/sport/i, 'match team coach league goal season player* championship*'),
  topic(/politic|government/i, 'election* government* minister* parliament* president* senate vote*'),
  topic(/business|econom|financ/i, 'shares profit* market* bank* revenue* investor* company economy'),
  topic(/tech|science/i, 'research* software chip* computer* internet scientist* device*'),
];

/** How much a text speaks for the topics that a label, or its meaning, is about. */
export function topicality(label: string, text: string): number {
  let sum = 0;
  for (const { label: about, words, weight } of TOPICS) {
    if (about.test(label)) sum += weight * (text.match(words)?.length ?? 0);
  }
  return sum;
}

function topic(label: RegExp, list: string, weight = 1): Topic {
  const words = list.replaceAll(' ', '|').replaceAll('_', ' ').replaceAll('*', String.raw`\p{L}{0,20}`);
  // Words of scripts without spaces have letters on both sides.
  const edge = String.raw`[\p{Script=Latin}\p{N}]`;
  return { label, words: new RegExp(`(?<!${edge})(?:${words})(?!${edge})`, 'giu'), weight };
}
